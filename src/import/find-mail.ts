import { closeSync, type Dirent, lstatSync, readdirSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { type FilePath, joinedPath, listedName, shownPath } from '../disk/byte-path.ts';
import { NOT_REGULAR, openRegularFile } from '../disk/regular-file.ts';
import { importNoMail, importUnreadable } from '../errors/import.ts';
import { errnoOf, hasCode } from '../errors/mailkeep-error.ts';
import { MANIFEST_NAME } from '../export/manifest.ts';
import { decodeModifiedUtf7 } from '../mailfiles/maildir-names.ts';
import { beginsMbox } from '../mailfiles/mbox.ts';
import { keywordsOfLetters, MhFolder } from './folder-marks.ts';

/** Where a file lies in an export of ours: the folder with the manifest, and the path that the manifest would list. */
export interface InExport {
  readonly root: FilePath;
  /** Parted by `/`. */
  readonly path: string;
}

/** A file with mail in it, and the folder of the archive that it belongs to. */
export interface MailFile {
  readonly path: FilePath;
  readonly kind: 'eml' | 'emlx' | 'mbox' | 'maildir' | 'mh';
  readonly folder: string;
  /** What parts the levels of `folder`. */
  readonly delimiter: '/' | '.';
  readonly inExport: InExport | null;
  /** Flags that a message of an MH folder has. */
  readonly flags?: readonly string[];
  /** Keywords by the small letters in the names of a Maildir. */
  readonly keywords?: ReadonlyMap<string, string>;
}

/** A zip file: its manifest says whether it is an export. Without one, its files are mail as those of a folder are. */
export interface ZipFile {
  readonly path: FilePath;
  readonly kind: 'zip';
  /** The folder that its mail goes to; empty for a zip that was named itself. */
  readonly below: string;
}

/** A file that is none of these, or a link, which is not followed. */
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
  /** Empty for the folder that was named. */
  readonly below: string;
  readonly inExport: InExport | null;
  /** True within the folder of a mailbox of Apple Mail, whose inner folders mean nothing. */
  readonly isBox?: boolean;
}

/**
 * Finds the mail at a path. A folder with `cur/` or `new/` is a Maildir: its Maildir++ folders go with it, and further
 * folders in it are walked as any other. `.eml` and `.emlx` files are messages, numbered ones those of MH; files that
 * begin with a delimiter are mboxes, and others whose header is that of mail are messages, whatever their names. Zip files
 * are named. Of what is named on the command line itself, whatever begins with a header field is a message too.
 * Hidden files and what is known to belong to mail programs are passed over in silence; links are not followed. The order
 * is that of the names, so that it is the same every time.
 *
 * A folder's path below `given` is its name in the archive, without the endings of Apple Mail and Thunderbird; what lies
 * in `given` itself goes to INBOX. An mbox is a folder of its name. Files in a folder with the manifest of an export, or
 * below one, are found with their place in it.
 *
 * @param below what `given` is called in the archive; INBOX if it is empty
 * @throws import-unreadable, import-no-mail for the path itself; what cannot be read below it is reported as such, and skipped
 */
export function* findMail(given: FilePath, below = ''): Found {
  const stats = reading(given, () => statSync(given));
  const inExport = exportAround(given);
  const spot = { below, inExport };
  if (!stats.isDirectory()) {
    if (!stats.isFile()) throw importUnreadable(shownPath(given), NOT_REGULAR);
    const name = path.basename(shownPath(given));
    const start = startOf(given);
    const text = start.toString('latin1');
    if (isMbox(start, name)) yield mboxAt(given, spot, name);
    else if (isEmlx(name)) yield mailAt(given, spot, 'emlx');
    else if (isEml(name) || BEGINS_WITH_FIELD.test(text)) yield mailAt(given, spot, 'eml');
    else if (text.startsWith(ZIP_START)) yield { path: given, kind: 'zip', below: '' };
    else throw importNoMail(shownPath(given));
    return;
  }
  yield* inFolder(given, { ...spot, isBox: BOX.test(shownPath(given)) });
}

function* inFolder(dir: FilePath, spot: Spot): Found {
  const { below } = spot;
  const inExport = hasManifest(dir) ? { root: dir, path: '' } : spot.inExport;
  const entries = listed(dir);
  const parts = reading(dir, () => maildirParts(dir, entries, inExport));
  yield* inMaildir(dir, parts, maildirFolder(below, ''), inExport);
  const mh = new MhFolder(dir);
  for (const entry of entries) {
    const { name, shown, kind } = entry;
    const at = joinedPath(dir, name);
    const within = deeper(inExport, shown);
    if (shown.startsWith('.')) yield* passingBy(inHidden(at, entry, { below, inExport: within }));
    else if (kind === 'folder') {
      if (!parts.includes(shown)) yield* passingBy(inFolder(at, deeperSpot(spot, shown, within)));
    } else if (kind === 'file') {
      const isOfMaildir = parts.length > 0 && MAILDIR_FILE.test(shown);
      if (!isOfMaildir) yield* passingBy(inFile(at, { ...spot, inExport: within }, shown, mh));
    } else yield { path: at, kind: 'other', inExport: within };
  }
}

/** Hidden folders may be those of a Maildir++ or of KMail; hidden files are mail only if their names say so. */
function* inHidden(at: FilePath, { shown, kind }: Entry, { below, inExport }: Spot): Found {
  if (kind !== 'folder') {
    const isMail = isEml(shown) || isEmlx(shown) || /\.mbox$/i.test(shown);
    if (isMail && !shown.startsWith('._')) yield { path: at, kind: 'other', inExport };
    return;
  }
  const ofKMail = /^\.(.+)\.directory$/.exec(shown)?.[1];
  if (ofKMail !== undefined) {
    yield* inFolder(at, deeperSpot({ below, inExport }, ofKMail, inExport));
    return;
  }
  const parts = reading(at, () => maildirParts(at, listed(at), inExport));
  yield* inMaildir(at, parts, maildirFolder(below, shown), inExport);
}

/** The endings of folders in which Thunderbird and Apple Mail keep mailboxes. */
const BOX = /\.(?:mbox|imapmbox)$/i;
const BOX_OR_SBD = /\.(?:mbox|imapmbox|sbd)$/i;
/** Folders within a mailbox of Apple Mail that mean nothing. */
const IN_BOX = /^(?:[\dA-F]{8}(?:-[\dA-F]{4}){3}-[\dA-F]{12}|Data|Messages|\d)$/i;

function deeperSpot({ below, isBox }: Spot, name: string, inExport: InExport | null): Spot {
  if (isBox === true && IN_BOX.test(name)) return { below, inExport, isBox };
  const own = inExport === null ? name.replace(BOX_OR_SBD, '') || name : name;
  const folder = below === '' ? own : `${below}/${own}`;
  return { below: folder, inExport, isBox: BOX.test(name) };
}

function* inFile(at: FilePath, spot: Spot, name: string, mh: MhFolder): Found {
  if (isEml(name)) yield mailAt(at, spot, 'eml');
  else if (isEmlx(name)) yield mailAt(at, spot, 'emlx');
  else {
    const start = startOf(at);
    const text = start.toString('latin1');
    if (isMbox(start, name)) yield mboxAt(at, spot, name);
    else if (/^[,#]?\d{1,9}$/.test(name) && BEGINS_WITH_FIELD.test(text)) {
      yield { ...mailAt(at, spot, 'mh'), flags: mh.flagsOf(name) };
    } else if (isHeader(text)) yield mailAt(at, spot, 'eml');
    else if (text.startsWith(ZIP_START) && /\.zip$/i.test(name)) {
      yield { path: at, kind: 'zip', below: deeperSpot(spot, name.slice(0, -4), null).below };
    } else if (start.length > 0 && !OF_PROGRAMS.test(name)) {
      yield { path: at, kind: 'other', inExport: spot.inExport };
    }
  }
}

/** Indexes and settings of mail programs and systems, in which no mail is. */
const OF_PROGRAMS =
  /^(?:table_of_contents|desktop\.ini|thumbs\.db|info\.plist|.+\.(?:msf|cmeta|ibex\.index(?:\.data)?)|msgFilterRules\.dat|filterlog\.html|popstate\.dat|junklog\.html|cyrus\.(?:header|index|cache|squat|annotations))$/i;
const MAILDIR_FILE =
  /^(?:dovecot[.-].*|maildir(?:folder|size|shared)|subscriptions|courier.*|uidvalidity|uidlist)$/i;

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

interface ArchiveFolder {
  readonly folder: string;
  readonly delimiter: '/' | '.';
}

/** The folder of a Maildir, or of a Maildir++ folder of it: below INBOX, or below the name of one that has another. */
function maildirFolder(below: string, name: string): ArchiveFolder {
  const root = folderName(decodeModifiedUtf7(below));
  if (root === 'INBOX') return { folder: `INBOX${decodeModifiedUtf7(name)}`, delimiter: '.' };
  const levels = name.split('.').map(decodeModifiedUtf7).join('/');
  return { folder: `${root}${levels}`, delimiter: '/' };
}

/**
 * Returns which of the folders in one hold the mail of a Maildir; none if it is not a Maildir. In an export, its format
 * decides: a folder of a mailbox may be called `cur`.
 */
function maildirParts(dir: FilePath, entries: readonly Entry[], inExport: InExport | null) {
  // Not through a link: it may lead out of the folder that was named.
  const there = (part: string): boolean =>
    entries.some(({ kind, shown }) => kind === 'folder' && shown === part);
  const parts = ['cur', 'new'].filter(there);
  if (parts.length === 0) return [];
  const format = inExport === null ? undefined : exportFormat(inExport.root);
  if (format !== undefined) return format === 'maildir' ? parts : [];
  const names = (part: string): string[] =>
    listed(joinedPath(dir, part)).flatMap(({ kind, shown }) =>
      kind === 'file' && !shown.startsWith('.') ? [shown] : [],
    );
  const mail = parts.flatMap(names);
  const ordinary = mail.length > 0 && mail.every((name) => isEml(name) || /\.mbox$/i.test(name));
  if (there('tmp')) return ordinary && names('tmp').some(isEml) ? [] : parts;
  if (ordinary) return [];
  return parts.length === 2 || mail.some((name) => MAILDIR_NAME.test(name)) ? parts : [];
}

const MAILDIR_NAME = /^\d{5,}[._]|[:;!]2,[A-Za-z]*$/;

function* inMaildir(
  dir: FilePath,
  parts: readonly string[],
  into: ArchiveFolder,
  inExport: InExport | null,
): Found {
  if (parts.length === 0) return;
  const marked = { ...into, keywords: keywordsOfLetters(dir) };
  for (const part of parts) {
    yield* passingBy(inPart(joinedPath(dir, part), marked, deeper(inExport, part)));
  }
}

function* inPart(
  dir: FilePath,
  into: ArchiveFolder & Pick<MailFile, 'keywords'>,
  inExport: InExport | null,
): Found {
  for (const { name, shown, kind } of listed(dir)) {
    if (shown.startsWith('.')) continue;
    const at = joinedPath(dir, name);
    const within = deeper(inExport, shown);
    if (kind === 'file') yield { path: at, kind: 'maildir', ...into, inExport: within };
    else yield { path: at, kind: 'other', inExport: within };
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

/** The format that the first line of a manifest tells; undefined for a manifest that cannot be used. */
function exportFormat(root: FilePath): unknown {
  const [line = ''] = startOf(joinedPath(root, MANIFEST_NAME)).toString('utf8').split('\n', 1);
  return /"format":"([a-z]+)"/.exec(line)?.[1];
}

function mailAt(at: FilePath, spot: Spot, kind: 'eml' | 'emlx' | 'mh'): MailFile {
  const { below, inExport } = spot;
  return { path: at, kind, folder: folderName(below), delimiter: '/', inExport };
}

function mboxAt(at: FilePath, { below, inExport, isBox }: Spot, name: string): MailFile {
  const own = name.replace(/\.mbox$/i, '') || name;
  // What Apple Mail exports as NAME.mbox is a folder with a file called mbox.
  const isOfBox = isBox === true && name === 'mbox' && below !== '';
  const folder = folderName(isOfBox ? below : below === '' ? own : `${below}/${own}`);
  return { path: at, kind: 'mbox', folder, delimiter: '/', inExport };
}

function folderName(below: string): string {
  return below === '' || below.toUpperCase() === 'INBOX' ? 'INBOX' : below;
}

/** RFC 5322, section 2.2, but for characters that no program puts into names of fields; a mark of UTF-8 may come first. */
const BEGINS_WITH_FIELD = /^(?:\u00ef\u00bb\u00bf)?[\r\n]*[\w-]+[ \t]*:/;
const USUAL_FIELD =
  /^(?:received|return-path|delivered-to|message-id|date|from|to|subject|mime-version)[ \t]*:/i;
const ZIP_START = 'PK\x03\x04';
const FIRST_BYTES = 4096;

function isEml(name: string): boolean {
  return /\.eml$/i.test(name);
}

function isEmlx(name: string): boolean {
  return /\.emlx$/i.test(name);
}

/** By its name, or by its first line: many programs name their mboxes without an ending. */
function isMbox(start: Buffer, name: string): boolean {
  return /\.mbox$/i.test(name) || (!isEml(name) && beginsMbox(start));
}

/** True for a text that begins with fields, two of which nearly every message has. */
function isHeader(text: string): boolean {
  if (!BEGINS_WITH_FIELD.test(text)) return false;
  const lines = text
    .replace(/^\u00ef\u00bb\u00bf/, '')
    .trimStart()
    .split(text.includes('\n') ? '\n' : '\r');
  const end = lines.findIndex((line) => !/^(?:[\w-]+[ \t]*:|[ \t]+\S)/.test(line));
  const usual = lines.slice(0, end < 0 ? undefined : end).filter((line) => USUAL_FIELD.test(line));
  return new Set(usual.map((line) => line.slice(0, line.indexOf(':')).toLowerCase())).size >= 2;
}

/** The first bytes of a file. */
function startOf(file: FilePath): Buffer {
  const start = Buffer.alloc(FIRST_BYTES);
  const fd = reading(file, () => openRegularFile(file));
  try {
    const got = reading(file, () => readSync(fd, start, 0, FIRST_BYTES, 0));
    return start.subarray(0, got);
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
    if (hasCode(error, 'import-unreadable')) throw error;
    throw importUnreadable(shownPath(file), errnoOf(error) ?? 'unknown');
  }
}
