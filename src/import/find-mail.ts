import { closeSync, type Dirent, lstatSync, readdirSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { type FilePath, joinedPath, listedName, shownPath } from '../disk/byte-path.ts';
import { NOT_REGULAR, openRegularFile } from '../disk/regular-file.ts';
import { importNoMail, importUnreadable } from '../errors/import.ts';
import { errnoOf, hasCode } from '../errors/mailkeep-error.ts';
import { MANIFEST_NAME } from '../export/manifest.ts';
import { decodeModifiedUtf7 } from '../mailfiles/maildir-names.ts';

/** Where a file lies in an export of ours: the folder with the manifest, and the path that the manifest would list. */
export interface InExport {
  readonly root: FilePath;
  /** Parted by `/`. */
  readonly path: string;
}

/** A file with mail in it, and the folder of the archive that it belongs to. */
export interface MailFile {
  readonly path: FilePath;
  readonly kind: 'eml' | 'mbox' | 'maildir';
  readonly folder: string;
  /** What parts the levels of `folder`. */
  readonly delimiter: '/' | '.';
  readonly inExport: InExport | null;
}

/** A zip file that was named itself; whether an export is in it, its manifest says. */
export interface ZipFile {
  readonly path: FilePath;
  readonly kind: 'zip';
}

/** A file that is none of these. */
export interface OtherFile {
  readonly path: FilePath;
  readonly kind: 'other';
  readonly inExport: InExport | null;
}

/** A file or folder below the path that was named, of which nothing is known but why: a name of the system. */
export interface UnreadableFile {
  readonly path: string;
  readonly kind: 'unreadable';
  readonly reason: string;
}

export type FoundFile = MailFile | ZipFile | OtherFile | UnreadableFile;
type Found = Generator<FoundFile, void, undefined>;

/** A folder on the way: its name in the archive, and where it lies in an export. */
interface Spot {
  readonly below: string;
  readonly inExport: InExport | null;
}

/**
 * Finds the mail at a path. A folder with `cur/` and `new/` is a Maildir, and its Maildir++ folders go with it; any
 * other folder is walked. `.eml` files are messages, files that begin with "From " are mboxes whatever their name;
 * of what is named on the command line itself, whatever begins with a header field is a message too. Hidden files and links are passed
 * over. The order is that of the names, so that it is the same every time.
 *
 * A folder's path below `given` is its name in the archive; what lies in `given` itself goes to INBOX. An mbox is a
 * folder of its name. Files in a folder with the manifest of an export, or below one, are found with their place in it.
 *
 * @throws import-unreadable, import-no-mail for the path itself; what cannot be read below it is reported as such, and skipped
 */
export function* findMail(given: FilePath): Found {
  const stats = reading(given, () => statSync(given));
  const inExport = exportAround(given);
  if (!stats.isDirectory()) {
    if (!stats.isFile()) throw importUnreadable(shownPath(given), NOT_REGULAR);
    const name = path.basename(shownPath(given));
    const start = startOf(given, FIRST_BYTES);
    if (isMbox(given, name)) yield mboxAt(given, { below: '', inExport }, name);
    else if (isEml(name) || BEGINS_WITH_FIELD.test(start)) {
      yield { path: given, kind: 'eml', folder: 'INBOX', delimiter: '/', inExport };
    } else if (start.startsWith(ZIP_START)) yield { path: given, kind: 'zip' };
    else throw importNoMail(shownPath(given));
    return;
  }
  yield* inFolder(given, { below: '', inExport });
}

function* inFolder(dir: FilePath, spot: Spot): Found {
  if (reading(dir, () => isMaildir(dir))) {
    yield* inMaildir(dir, spot);
    return;
  }
  const { below } = spot;
  const inExport = hasManifest(dir) ? { root: dir, path: '' } : spot.inExport;
  for (const entry of listed(dir)) {
    const { name, shown } = entry;
    const at = joinedPath(dir, name);
    const within = deeper(inExport, shown);
    if (shown.startsWith('.')) {
      // In an export, a mailbox without mail in INBOX has the other folders of its Maildir alone.
      if (entry.kind === 'folder' && within !== null && reading(at, () => isMaildir(at))) {
        yield* passingBy(
          inMaildirFolder(at, { below: maildirFolder(below, shown), inExport: within }),
        );
      }
      continue;
    }
    if (entry.kind === 'folder') {
      const folder = below === '' ? shown : `${below}/${shown}`;
      yield* passingBy(inFolder(at, { below: folder, inExport: within }));
    } else if (entry.kind === 'file') {
      yield* passingBy(inFile(at, { below, inExport: within }, shown));
    }
  }
}

function* inFile(at: FilePath, { below, inExport }: Spot, name: string): Found {
  if (isEml(name)) {
    yield { path: at, kind: 'eml', folder: folderName(below), delimiter: '/', inExport };
  } else if (isMbox(at, name)) yield mboxAt(at, { below, inExport }, name);
  else yield { path: at, kind: 'other', inExport };
}

/** What is found, until something cannot be read: that comes last. */
function* passingBy(found: Found): Found {
  try {
    yield* found;
  } catch (error) {
    if (!hasCode(error, 'import-unreadable')) throw error;
    const { path: at, errno } = error.facts;
    yield { path: String(at), kind: 'unreadable', reason: String(errno) };
  }
}

/** INBOX and the folders of a Maildir++; one that lies within other folders is named after them. */
function* inMaildir(dir: FilePath, { below, inExport }: Spot): Found {
  const folders = listed(dir).filter(
    ({ kind, shown }) => kind === 'folder' && /^\.[^.]/.test(shown),
  );
  yield* passingBy(inMaildirFolder(dir, { below: maildirFolder(below, ''), inExport }));
  for (const { name, shown } of folders) {
    const folder = maildirFolder(below, shown);
    const spot = { below: folder, inExport: deeper(inExport, shown) };
    yield* passingBy(inMaildirFolder(joinedPath(dir, name), spot));
  }
}

/** The folder of a Maildir++ subfolder, or of the Maildir itself for an empty name. */
function maildirFolder(below: string, name: string): string {
  return `${below === '' ? 'INBOX' : below.replaceAll('/', '.')}${decodeModifiedUtf7(name)}`;
}

function* inMaildirFolder(root: FilePath, { below, inExport }: Spot): Found {
  if (!reading(root, () => isMaildir(root))) return;
  for (const part of ['cur', 'new']) {
    const spot = { below, inExport: deeper(inExport, part) };
    yield* passingBy(inPart(joinedPath(root, part), spot));
  }
}

function* inPart(dir: FilePath, { below, inExport }: Spot): Found {
  for (const { name, shown, kind } of listed(dir)) {
    if (kind !== 'file' || shown.startsWith('.')) continue;
    yield {
      path: joinedPath(dir, name),
      kind: 'maildir',
      folder: below,
      delimiter: '.',
      inExport: deeper(inExport, shown),
    };
  }
}

function deeper(inExport: InExport | null, name: string): InExport | null {
  if (inExport === null) return null;
  return { ...inExport, path: inExport.path === '' ? name : `${inExport.path}/${name}` };
}

/** Levels above a path that are searched for a manifest: an export has fewer. */
const MOST_LEVELS = 16;

/** Returns where a path lies in an export whose manifest is in a folder above it; null for none. */
export function exportAround(given: FilePath): InExport | null {
  // Nothing in an export of ours has a name that is not UTF-8.
  if (typeof given !== 'string') return null;
  let below = path.basename(given);
  let dir = path.dirname(given);
  for (let level = 0; level < MOST_LEVELS && dir !== path.dirname(dir); level += 1) {
    if (hasManifest(dir)) return { root: dir, path: below };
    below = `${path.basename(dir)}/${below}`;
    dir = path.dirname(dir);
  }
  return null;
}

/** Not through a link: it may lead anywhere. */
function hasManifest(dir: FilePath): boolean {
  try {
    return lstatSync(joinedPath(dir, MANIFEST_NAME)).isFile();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

function mboxAt(at: FilePath, { below, inExport }: Spot, name: string): MailFile {
  const own = name.replace(/\.mbox$/i, '') || name;
  const folder = folderName(below === '' ? own : `${below}/${own}`);
  return { path: at, kind: 'mbox', folder, delimiter: '/', inExport };
}

function folderName(below: string): string {
  return below === '' || below.toUpperCase() === 'INBOX' ? 'INBOX' : below;
}

function isMaildir(dir: FilePath): boolean {
  return ['cur', 'new'].every(
    // Not through a link: it may lead out of the folder that was named.
    (name) => lstatSync(joinedPath(dir, name), { throwIfNoEntry: false })?.isDirectory() ?? false,
  );
}

/** RFC 5322, section 2.2, but for characters that no program puts into names of fields; a mark of UTF-8 may come first. */
const BEGINS_WITH_FIELD = /^(?:\u00ef\u00bb\u00bf)?[\r\n]*[\w-]+[ \t]*:/;
const ZIP_START = 'PK\x03\x04';
const FIRST_BYTES = 256;

function isEml(name: string): boolean {
  return /\.eml$/i.test(name);
}

/** By its name, or by its first bytes: many programs name their mboxes without an ending. */
function isMbox(file: FilePath, name: string): boolean {
  if (/\.mbox$/i.test(name)) return true;
  return !isEml(name) && startOf(file, 5) === 'From ';
}

/** The first bytes of a file, a character each. */
function startOf(file: FilePath, length: number): string {
  const start = Buffer.alloc(length);
  const fd = reading(file, () => openRegularFile(file));
  try {
    const got = reading(file, () => readSync(fd, start, 0, length, 0));
    return start.toString('latin1', 0, got);
  } finally {
    closeSync(fd);
  }
}

interface Entry {
  readonly name: FilePath;
  readonly shown: string;
  readonly kind: 'folder' | 'file' | 'other';
}

/** What is in a folder, by name. Names are bytes: one that is not UTF-8 would not be found again as a text. */
function listed(dir: FilePath): Entry[] {
  const entries: Dirent<Buffer>[] = reading(dir, () =>
    readdirSync(dir, { withFileTypes: true, encoding: 'buffer' }),
  );
  return entries
    .map((entry): Entry => {
      const name = listedName(entry.name);
      const kind = entry.isDirectory() ? 'folder' : entry.isFile() ? 'file' : 'other';
      return { name, shown: shownPath(name), kind };
    })
    .sort((a, b) => (a.shown < b.shown ? -1 : a.shown > b.shown ? 1 : 0));
}

function reading<T>(file: FilePath, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw importUnreadable(shownPath(file), errnoOf(error) ?? 'unknown');
  }
}
