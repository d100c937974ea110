import {
  closeSync,
  type Dirent,
  lstatSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { NOT_REGULAR, openRegularFile } from '../disk/regular-file.ts';
import { errnoOf } from '../errors/errno.ts';
import { importNoMail, importUnreadable } from '../errors/import.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import { decodeModifiedUtf7 } from '../mailfiles/maildir-names.ts';

/** A file with mail in it, and the folder of the archive that it belongs to. */
export interface MailFile {
  readonly path: string;
  readonly kind: 'eml' | 'mbox' | 'maildir';
  readonly folder: string;
  /** What parts the levels of `folder`. */
  readonly delimiter: '/' | '.';
}

/** A file that is none. */
export interface OtherFile {
  readonly path: string;
  readonly kind: 'other';
}

/** A file or folder below the path that was named, of which nothing is known but why: a name of the system. */
export interface UnreadableFile {
  readonly path: string;
  readonly kind: 'unreadable';
  readonly reason: string;
}

export type FoundFile = MailFile | OtherFile | UnreadableFile;

/**
 * Finds the mail at a path. A folder with `cur/` and `new/` is a Maildir, and its Maildir++ folders go with it; any
 * other folder is walked. `.eml` files are messages, files that begin with "From " are mboxes whatever their name;
 * of what is named on the command line itself, whatever begins with a header field is a message too. Hidden files and links are passed
 * over. The order is that of the names, so that it is the same every time.
 *
 * A folder's path below `given` is its name in the archive; what lies in `given` itself goes to INBOX. An mbox is a
 * folder of its name.
 *
 * @throws import-unreadable, import-no-mail for the path itself; what cannot be read below it is told as such, and passed by
 */
export function* findMail(given: string): Generator<FoundFile, void, undefined> {
  const stats = reading(given, () => statSync(given));
  if (!stats.isDirectory()) {
    if (!stats.isFile()) throw importUnreadable(given, NOT_REGULAR);
    const name = path.basename(given);
    if (isMbox(given, name)) yield mboxAt(given, '', name);
    else if (/\.eml$/i.test(name) || BEGINS_WITH_FIELD.test(startOf(given, FIRST_BYTES))) {
      yield { path: given, kind: 'eml', folder: 'INBOX', delimiter: '/' };
    } else throw importNoMail(given);
    return;
  }
  yield* inFolder(given, '');
}

function* inFolder(dir: string, below: string): Generator<FoundFile, void, undefined> {
  if (reading(dir, () => isMaildir(dir))) {
    yield* inMaildir(dir, below);
    return;
  }
  const entries = sorted(reading(dir, () => readdirSync(dir, { withFileTypes: true })));
  for (const entry of entries) {
    const { name } = entry;
    const at = path.join(dir, name);
    if (name.startsWith('.')) continue;
    if (entry.isDirectory()) {
      yield* passingBy(inFolder(at, below === '' ? name : `${below}/${name}`));
    } else if (entry.isFile()) yield* passingBy(inFile(at, below, name));
  }
}

function* inFile(at: string, below: string, name: string): Generator<FoundFile, void, undefined> {
  if (/\.eml$/i.test(name)) {
    yield { path: at, kind: 'eml', folder: folderName(below), delimiter: '/' };
  } else if (isMbox(at, name)) yield mboxAt(at, below, name);
  else yield { path: at, kind: 'other' };
}

/** What is found, until something cannot be read: that is told last. */
function* passingBy(
  found: Generator<FoundFile, void, undefined>,
): Generator<FoundFile, void, undefined> {
  try {
    yield* found;
  } catch (error) {
    if (!hasCode(error, 'import-unreadable')) throw error;
    const { path: at, errno } = error.facts;
    yield { path: String(at), kind: 'unreadable', reason: String(errno) };
  }
}

/** INBOX and the folders of a Maildir++; one that lies within other folders is named after them. */
function* inMaildir(dir: string, below: string): Generator<FoundFile, void, undefined> {
  const prefix = below === '' ? 'INBOX' : below.replaceAll('/', '.');
  const folders = sorted(reading(dir, () => readdirSync(dir, { withFileTypes: true })))
    .filter((entry) => entry.isDirectory() && /^\.[^.]/.test(entry.name))
    .map((entry) => entry.name);
  for (const name of ['', ...folders]) {
    yield* passingBy(inMaildirFolder(path.join(dir, name), `${prefix}${decodeModifiedUtf7(name)}`));
  }
}

function* inMaildirFolder(root: string, folder: string): Generator<FoundFile, void, undefined> {
  if (!reading(root, () => isMaildir(root))) return;
  for (const part of ['cur', 'new']) yield* passingBy(inPart(path.join(root, part), folder));
}

function* inPart(dir: string, folder: string): Generator<FoundFile, void, undefined> {
  for (const entry of sorted(reading(dir, () => readdirSync(dir, { withFileTypes: true })))) {
    if (!entry.isFile() || entry.name.startsWith('.')) continue;
    yield { path: path.join(dir, entry.name), kind: 'maildir', folder, delimiter: '.' };
  }
}

function mboxAt(at: string, below: string, name: string): MailFile {
  const own = name.replace(/\.mbox$/i, '') || name;
  const folder = below === '' ? own : `${below}/${own}`;
  return { path: at, kind: 'mbox', folder: folderName(folder), delimiter: '/' };
}

function folderName(below: string): string {
  return below === '' || below.toUpperCase() === 'INBOX' ? 'INBOX' : below;
}

function isMaildir(dir: string): boolean {
  return ['cur', 'new'].every(
    // Not through a link: it may lead out of the folder that was named.
    (name) => lstatSync(path.join(dir, name), { throwIfNoEntry: false })?.isDirectory() ?? false,
  );
}

/** RFC 5322, section 2.2, but for characters that no program puts into names of fields; a mark of UTF-8 may come first. */
const BEGINS_WITH_FIELD = /^(?:\u00ef\u00bb\u00bf)?[\r\n]*[\w-]+[ \t]*:/;
const FIRST_BYTES = 256;

/** By its name, or by its first bytes: many programs name their mboxes without an ending. */
function isMbox(file: string, name: string): boolean {
  if (/\.mbox$/i.test(name)) return true;
  if (/\.eml$/i.test(name)) return false;
  return startOf(file, 5) === 'From ';
}

/** The first bytes of a file, a character each. */
function startOf(file: string, length: number): string {
  const start = Buffer.alloc(length);
  const fd = reading(file, () => openRegularFile(file));
  try {
    const got = reading(file, () => readSync(fd, start, 0, length, 0));
    return start.toString('latin1', 0, got);
  } finally {
    closeSync(fd);
  }
}

function sorted(entries: Dirent[]): Dirent[] {
  return entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function reading<T extends Dirent[] | Stats | number | boolean>(file: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw importUnreadable(file, errnoOf(error) ?? 'unknown');
  }
}
