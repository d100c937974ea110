import { isUtf8 } from 'node:buffer';
import {
  closeSync,
  createWriteStream,
  type Dirent,
  fstatSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Entry as YauzlEntry, ZipFile as YauzlZipFile } from 'yauzl';
import yauzl from 'yauzl';
import { errnoOf, hasCode, NOT_REGULAR } from '../core/errors.ts';
import { type FilePath, joinPath, listedName, openRegularFile, shownPath } from '../core/files.ts';
import { decodeModifiedUtf7, startsLikeMbox } from '../mail/mail-files.ts';
import { importError } from './errors.ts';
import { MANIFEST_NAME } from './export-manifest.ts';

const MAX_BYTES = 4 * 1024 * 1024;
const FLAGS: readonly (readonly [sequence: string, flag: string])[] = [
  ['flagged', '\\Flagged'],
  ['replied', '\\Answered'],
];

/** Reads the flags of messages in an MH folder from its sequences. */
class MhFolder {
  #sequences: ReadonlyMap<string, readonly (readonly [from: number, to: number])[]> | undefined;

  constructor(private readonly dir: FilePath) {}

  /** @param name the message's file. MH's `rmm` adds a prefix to a deleted message's number */
  flagsOf(name: string): string[] {
    const number = Number(name.replace(/^\D/, ''));
    this.#sequences ??= sequencesIn(joinPath(this.dir, '.mh_sequences'));
    const sequences = this.#sequences;
    const isIn = (sequence: string): boolean =>
      sequences.get(sequence)?.some(([from, to]) => number >= from && number <= to) ?? false;
    return [
      // Without sequences, nothing indicates whether a message has been read.
      ...(sequences.size === 0 || isIn('unseen') ? [] : ['\\Seen']),
      ...FLAGS.filter(([sequence]) => isIn(sequence)).map(([, flag]) => flag),
      ...(/^\d/.test(name) ? [] : ['\\Deleted']),
    ];
  }
}

const KEYWORD_LINE = /^(\d{1,2}) ([!-[\]-~]{1,100})\r?$/;

/** Reads the Dovecot keywords that the letters a to z in Maildir file names stand for. */
function keywordsOfLetters(maildir: FilePath): ReadonlyMap<string, string> {
  const keywords = new Map<string, string>();
  for (const line of readText(joinPath(maildir, 'dovecot-keywords')).split('\n')) {
    const [, number, keyword] = KEYWORD_LINE.exec(line) ?? [];
    if (keyword === undefined || Number(number) > 25) continue;
    keywords.set(String.fromCharCode('a'.charCodeAt(0) + Number(number)), keyword);
  }
  return keywords;
}

/** Reads lines such as `unseen: 3 5-7`. Treats an unreadable or oversized file as empty. */
function sequencesIn(file: FilePath) {
  const sequences = new Map<string, [number, number][]>();
  for (const line of readText(file).split('\n')) {
    const [, name, numbers = ''] = /^([\w-]+):(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    const ranges = [...numbers.matchAll(/(\d{1,9})(?:-(\d{1,9}))?/g)];
    sequences.set(
      name.toLowerCase(),
      ranges.map(([, from, to]) => [Number(from), Number(to ?? from)]),
    );
  }
  return sequences;
}

function readText(file: FilePath): string {
  try {
    const fd = openRegularFile(file);
    try {
      return fstatSync(fd).size > MAX_BYTES ? '' : readFileSync(fd, 'latin1');
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return '';
  }
}

/** Location of a file in a mailkeep export. `root` contains the manifest. */
export interface ExportLocation {
  readonly root: FilePath;
  readonly path: string;
}

export interface MailFile {
  readonly path: FilePath;
  readonly kind: 'eml' | 'emlx' | 'mbox' | 'maildir' | 'mh';
  readonly folder: string;
  readonly delimiter: '/' | '.';
  readonly inExport: ExportLocation | null;
  readonly flags?: readonly string[];
  /** Keywords by their lower-case letters in Maildir file names. */
  readonly keywords?: ReadonlyMap<string, string>;
}

/** A zip file. It is an export if it contains a manifest. Otherwise its files are imported like a folder's. */
export interface ZipFile {
  readonly path: FilePath;
  readonly kind: 'zip';
  /** Parent folder for the zip's mail; empty for a zip given by the user. */
  readonly below: string;
}

export interface OtherFile {
  readonly path: FilePath;
  readonly kind: 'other';
  readonly inExport: ExportLocation | null;
}

interface UnreadableFile {
  readonly path: string;
  readonly kind: 'unreadable';
  readonly reason: string;
}

export type FoundFile = MailFile | ZipFile | OtherFile | UnreadableFile;
type Found = Generator<FoundFile, void, undefined>;

/** A folder to search, with its name in the archive and its location in an export. */
interface Spot {
  readonly below: string;
  readonly inExport: ExportLocation | null;
  /** True in an Apple Mail mailbox, where inner folders have no meaning. */
  readonly isBox?: boolean;
}

/**
 * Finds mail under a path. A folder with `cur/` or `new/` is a Maildir with its Maildir++ folders; other folders in it
 * are searched as usual. `.eml`, `.emlx` and numbered (MH) files are messages. Files that start with a delimiter are
 * mboxes. Other files are messages if their header looks like mail. A file passed directly needs only a header field at
 * its start. Silently skips hidden files and files that belong to mail programs. Does not follow links. Yields files in
 * name order, so that the order is stable.
 *
 * Mail goes to a folder named after its path below `given`, without the extensions of Apple Mail and Thunderbird. Mail
 * directly in `given` goes to INBOX. Each mbox is a separate folder. If a folder contains an export's manifest, files
 * below it get their location in the export.
 *
 * @param below name of `given` in the archive; INBOX if empty
 * @throws import-unreadable, import-no-mail for the path itself; unreadable entries below it are yielded as such
 */
export function* findMail(given: FilePath, below = ''): Found {
  const stats = mapErrors(given, () => statSync(given));
  const inExport = enclosingExport(given);
  const spot = { below, inExport };
  if (!stats.isDirectory()) {
    if (!stats.isFile())
      throw importError('import-unreadable', { path: shownPath(given), errno: NOT_REGULAR });
    const name = path.basename(shownPath(given));
    const start = readStart(given);
    const text = start.toString('latin1');
    if (isMbox(start, name)) yield toMbox(given, spot, name);
    else if (isEmlx(name)) yield toMail(given, spot, 'emlx');
    else if (isEml(name) || BEGINS_WITH_FIELD.test(text)) yield toMail(given, spot, 'eml');
    else if (text.startsWith(ZIP_START)) yield { path: given, kind: 'zip', below: '' };
    else throw importError('import-no-mail', { path: shownPath(given) });
    return;
  }
  yield* walkFolder(given, { ...spot, isBox: BOX.test(shownPath(given)) });
}

function* walkFolder(dir: FilePath, spot: Spot): Found {
  const { below } = spot;
  const inExport = hasManifest(dir) ? { root: dir, path: '' } : spot.inExport;
  const entries = listFolder(dir);
  const parts = mapErrors(dir, () => maildirParts(dir, entries, inExport));
  yield* walkMaildir(dir, parts, maildirFolder(below, ''), inExport);
  const mh = new MhFolder(dir);
  for (const entry of entries) {
    const { name, shown, kind } = entry;
    const at = joinPath(dir, name);
    const location = childLocation(inExport, shown);
    if (shown.startsWith('.'))
      yield* reportingErrors(walkHidden(at, entry, { below, inExport: location }));
    else if (kind === 'folder') {
      if (!parts.includes(shown))
        yield* reportingErrors(walkFolder(at, childSpot(spot, shown, location)));
    } else if (kind === 'file') {
      const isOfMaildir = parts.length > 0 && MAILDIR_FILE.test(shown);
      if (!isOfMaildir)
        yield* reportingErrors(walkFile(at, { ...spot, inExport: location }, shown, mh));
    } else yield { path: at, kind: 'other', inExport: location };
  }
}

/** A hidden folder may belong to Maildir++ or KMail. Hidden files are reported only if their names look like mail. */
function* walkHidden(at: FilePath, { shown, kind }: Entry, { below, inExport }: Spot): Found {
  if (kind !== 'folder') {
    const isMail = isEml(shown) || isEmlx(shown) || /\.mbox$/i.test(shown);
    if (isMail && !shown.startsWith('._')) yield { path: at, kind: 'other', inExport };
    return;
  }
  const ofKMail = /^\.(.+)\.directory$/.exec(shown)?.[1];
  if (ofKMail !== undefined) {
    yield* walkFolder(at, childSpot({ below, inExport }, ofKMail, inExport));
    return;
  }
  const parts = mapErrors(at, () => maildirParts(at, listFolder(at), inExport));
  yield* walkMaildir(at, parts, maildirFolder(below, shown), inExport);
}

const BOX = /\.(?:mbox|imapmbox)$/i;
const BOX_OR_SBD = /\.(?:mbox|imapmbox|sbd)$/i;
/** Folders that have no meaning inside an Apple Mail mailbox. */
const IN_BOX = /^(?:[\dA-F]{8}(?:-[\dA-F]{4}){3}-[\dA-F]{12}|Data|Messages|\d)$/i;

function childSpot({ below, isBox }: Spot, name: string, inExport: ExportLocation | null): Spot {
  if (isBox === true && IN_BOX.test(name)) return { below, inExport, isBox };
  const label = inExport === null ? name.replace(BOX_OR_SBD, '') || name : name;
  const folder = below === '' ? label : `${below}/${label}`;
  return { below: folder, inExport, isBox: BOX.test(name) };
}

function* walkFile(at: FilePath, spot: Spot, name: string, mh: MhFolder): Found {
  if (isEml(name)) yield toMail(at, spot, 'eml');
  else if (isEmlx(name)) yield toMail(at, spot, 'emlx');
  else {
    const start = readStart(at);
    const text = start.toString('latin1');
    if (isMbox(start, name)) yield toMbox(at, spot, name);
    else if (/^[,#]?\d{1,9}$/.test(name) && BEGINS_WITH_FIELD.test(text)) {
      yield { ...toMail(at, spot, 'mh'), flags: mh.flagsOf(name) };
    } else if (isHeader(text)) yield toMail(at, spot, 'eml');
    else if (text.startsWith(ZIP_START) && /\.zip$/i.test(name)) {
      yield { path: at, kind: 'zip', below: childSpot(spot, name.slice(0, -4), null).below };
    } else if (start.length > 0 && !OF_PROGRAMS.test(name)) {
      yield { path: at, kind: 'other', inExport: spot.inExport };
    }
  }
}

/** Index and settings files of mail programs and operating systems. */
const OF_PROGRAMS =
  /^(?:table_of_contents|desktop\.ini|thumbs\.db|info\.plist|.+\.(?:msf|cmeta|ibex\.index(?:\.data)?)|msgFilterRules\.dat|filterlog\.html|popstate\.dat|junklog\.html|cyrus\.(?:header|index|cache|squat|annotations))$/i;
const MAILDIR_FILE =
  /^(?:dovecot[.-].*|maildir(?:folder|size|shared)|subscriptions|courier.*|uidvalidity|uidlist)$/i;

function* reportingErrors(found: Found): Found {
  try {
    yield* found;
  } catch (error) {
    if (!hasCode(error, 'import-unreadable')) throw error;
    const { path: at, errno } = error.facts;
    yield { path: String(at), kind: 'unreadable', reason: String(errno) };
  }
}

/** Returns the archive's folder for a Maildir or Maildir++ folder: under INBOX, or under the Maildir's own name. */
function maildirFolder(below: string, name: string): Pick<MailFile, 'folder' | 'delimiter'> {
  const root = folderName(decodeModifiedUtf7(below));
  if (root === 'INBOX') return { folder: `INBOX${decodeModifiedUtf7(name)}`, delimiter: '.' };
  const levels = name.split('.').map(decodeModifiedUtf7).join('/');
  return { folder: `${root}${levels}`, delimiter: '/' };
}

/**
 * Returns the subfolders that hold a Maildir's mail. In an export, the format decides, as folders may be named `cur`.
 */
function maildirParts(dir: FilePath, entries: readonly Entry[], inExport: ExportLocation | null) {
  const hasPart = (part: string): boolean =>
    entries.some(({ kind, shown }) => kind === 'folder' && shown === part);
  const parts = ['cur', 'new'].filter(hasPart);
  if (parts.length === 0) return [];
  const format = inExport === null ? undefined : exportFormat(inExport.root);
  if (format !== undefined) return format === 'maildir' ? parts : [];
  const names = (part: string): string[] =>
    listFolder(joinPath(dir, part)).flatMap(({ kind, shown }) =>
      kind === 'file' && !shown.startsWith('.') ? [shown] : [],
    );
  const mail = parts.flatMap(names);
  const isOrdinary = mail.length > 0 && mail.every((name) => isEml(name) || /\.mbox$/i.test(name));
  if (hasPart('tmp')) return isOrdinary && names('tmp').some(isEml) ? [] : parts;
  if (isOrdinary) return [];
  return parts.length === 2 || mail.some((name) => MAILDIR_NAME.test(name)) ? parts : [];
}

const MAILDIR_NAME = /^\d{5,}[._]|[:;!]2,[A-Za-z]*$/;

function* walkMaildir(
  dir: FilePath,
  parts: readonly string[],
  into: Pick<MailFile, 'folder' | 'delimiter'>,
  inExport: ExportLocation | null,
): Found {
  if (parts.length === 0) return;
  const target = { ...into, keywords: keywordsOfLetters(dir) };
  for (const part of parts) {
    yield* reportingErrors(walkPart(joinPath(dir, part), target, childLocation(inExport, part)));
  }
}

function* walkPart(
  dir: FilePath,
  into: Pick<MailFile, 'folder' | 'delimiter'> & Pick<MailFile, 'keywords'>,
  inExport: ExportLocation | null,
): Found {
  for (const { name, shown, kind } of listFolder(dir)) {
    if (shown.startsWith('.')) continue;
    const at = joinPath(dir, name);
    const location = childLocation(inExport, shown);
    if (kind === 'file') yield { path: at, kind: 'maildir', ...into, inExport: location };
    else yield { path: at, kind: 'other', inExport: location };
  }
}

function childLocation(inExport: ExportLocation | null, name: string): ExportLocation | null {
  if (inExport === null) return null;
  return { ...inExport, path: inExport.path === '' ? name : `${inExport.path}/${name}` };
}

/** Maximum number of parent folders to search for a manifest. Exports are never this deep. */
const MAX_LEVELS = 16;

/** Returns a path's location in an export if a parent folder contains a manifest. */
export function enclosingExport(given: FilePath): ExportLocation | null {
  // Our exports contain only UTF-8 names.
  if (typeof given !== 'string') return null;
  let below = path.basename(given);
  let dir = path.dirname(given);
  for (let level = 0; level < MAX_LEVELS && dir !== path.dirname(dir); level += 1) {
    if (hasManifest(dir)) return { root: dir, path: below };
    below = `${path.basename(dir)}/${below}`;
    dir = path.dirname(dir);
  }
  return null;
}

function hasManifest(dir: FilePath): boolean {
  try {
    return lstatSync(joinPath(dir, MANIFEST_NAME)).isFile();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

function exportFormat(root: FilePath): unknown {
  const [line = ''] = readStart(joinPath(root, MANIFEST_NAME)).toString('utf8').split('\n', 1);
  return /"format":"([a-z]+)"/.exec(line)?.[1];
}

function toMail(at: FilePath, spot: Spot, kind: 'eml' | 'emlx' | 'mh'): MailFile {
  const { below, inExport } = spot;
  return { path: at, kind, folder: folderName(below), delimiter: '/', inExport };
}

function toMbox(at: FilePath, { below, inExport, isBox }: Spot, name: string): MailFile {
  const label = name.replace(/\.mbox$/i, '') || name;
  // Apple Mail exports NAME.mbox as a folder with a file named mbox.
  const isOfBox = isBox === true && name === 'mbox' && below !== '';
  const folder = folderName(isOfBox ? below : below === '' ? label : `${below}/${label}`);
  return { path: at, kind: 'mbox', folder, delimiter: '/', inExport };
}

function folderName(below: string): string {
  return below === '' || below.toUpperCase() === 'INBOX' ? 'INBOX' : below;
}

/** RFC 5322, section 2.2, limited to characters found in real field names. A UTF-8 BOM may come first. */
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

/** Checks the name and the first line, because many programs name mboxes without an extension. */
function isMbox(start: Buffer, name: string): boolean {
  return /\.mbox$/i.test(name) || (!isEml(name) && startsLikeMbox(start));
}

function isHeader(text: string): boolean {
  if (!BEGINS_WITH_FIELD.test(text)) return false;
  const lines = text
    .replace(/^\u00ef\u00bb\u00bf/, '')
    .trimStart()
    .split(text.includes('\n') ? '\n' : '\r');
  const end = lines.findIndex((line) => !/^(?:[\w-]+[ \t]*:|[ \t]+\S)/.test(line));
  const hits = lines.slice(0, end < 0 ? undefined : end).filter((line) => USUAL_FIELD.test(line));
  return new Set(hits.map((line) => line.slice(0, line.indexOf(':')).toLowerCase())).size >= 2;
}

function readStart(file: FilePath): Buffer {
  const start = Buffer.alloc(FIRST_BYTES);
  const fd = mapErrors(file, () => openRegularFile(file));
  try {
    const size = mapErrors(file, () => readSync(fd, start, 0, FIRST_BYTES, 0));
    return start.subarray(0, size);
  } finally {
    closeSync(fd);
  }
}

interface Entry {
  readonly name: FilePath;
  readonly shown: string;
  readonly kind: 'folder' | 'file' | 'other';
}

/** Lists a folder by name. Keeps names as bytes, because a name that is not UTF-8 cannot be opened as text. */
function listFolder(dir: FilePath): Entry[] {
  const entries: Dirent<Buffer>[] = mapErrors(dir, () =>
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

function mapErrors<T>(file: FilePath, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (hasCode(error, 'import-unreadable')) throw error;
    throw importError('import-unreadable', {
      path: shownPath(file),
      errno: errnoOf(error) ?? 'unknown',
    });
  }
}

/**
 * Why a zip entry, or the rest of the zip, was not unpacked. `zip-name`: the name points outside the folder or is not a
 * valid file name. `zip-bomb`: it inflates to far more than mail would. `zip-damaged`: it is damaged or uses an
 * unsupported compression method.
 */
type ZipProblem = 'zip-name' | 'zip-link' | 'zip-encrypted' | 'zip-bomb' | 'zip-damaged';

export interface ZipBudget {
  bytes: number;
  entries: number;
}

/** Maximum compression ratio. Mail compresses to a twentieth of its size at best. */
const MAX_RATIO = 200;
const SMALL_BYTES = 64 * 1024 * 1024;
const MAX_ENTRIES = 2_000_000;
const MAX_ZIP_LEVELS = 64;
const MAX_NAME_BYTES = 255;

/** @throws system errors */
export async function isZip(file: string): Promise<boolean> {
  try {
    (await yauzl.openPromise(file, { lazyEntries: true, decodeStrings: false })).close();
    return true;
  } catch (error) {
    if (errnoOf(error) !== undefined) throw error;
    return false;
  }
}

export function createZipBudget(file: string): ZipBudget {
  return { bytes: statSync(file).size * MAX_RATIO + SMALL_BYTES, entries: MAX_ENTRIES };
}

/**
 * Unpacks a zip within the budget. Reports and skips entries that cannot be unpacked.
 *
 * @param onProblem called with an entry's name, or with an empty name if the rest of the zip cannot be read
 * @throws system errors from writing to the folder, such as ENOSPC
 */
export async function unpackZip(
  file: string,
  into: string,
  budget: ZipBudget,
  signal: AbortSignal,
  onProblem: (name: string, problem: ZipProblem | string) => void,
): Promise<void> {
  let zip: YauzlZipFile | undefined;
  try {
    // yauzl would stop at an invalid name, so check names here.
    zip = await yauzl.openPromise(file, {
      lazyEntries: true,
      autoClose: false,
      decodeStrings: false,
    });
    for await (const entry of zip.eachEntry()) {
      if (signal.aborted) return;
      const name = decodeName(entry);
      if (name.endsWith('/') || /(?:^|\/)(?:__MACOSX\/|\._)/.test(name)) continue;
      const problem = findProblem(entry, name, budget);
      if (problem !== undefined) {
        onProblem(name, problem);
        if (budget.entries <= 0) return;
        continue;
      }
      await unpackEntry(zip, entry, path.join(into, ...levelsOf(name)), (reason) =>
        onProblem(name, reason),
      );
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOSPC' || !(error instanceof Error)) throw error;
    onProblem('', errnoOf(error) ?? 'zip-damaged');
  } finally {
    zip?.close();
  }
}

function decodeName(entry: YauzlEntry): string {
  const raw = Buffer.from(entry.fileNameRaw);
  // Many programs write UTF-8 without setting the flag.
  const flags = isUtf8(raw) ? entry.generalPurposeBitFlag | 0x800 : entry.generalPurposeBitFlag;
  return yauzl.getFileNameLowLevel(flags, raw, entry.extraFields, false);
}

function levelsOf(name: string): string[] {
  return name.split('/').filter((level) => level !== '' && level !== '.');
}

function findProblem(entry: YauzlEntry, name: string, budget: ZipBudget): ZipProblem | undefined {
  const levels = levelsOf(name);
  const isName =
    yauzl.validateFileName(name) === null &&
    levels.length > 0 &&
    levels.length <= MAX_ZIP_LEVELS &&
    levels.every((level) => !level.includes('\0') && Buffer.byteLength(level) <= MAX_NAME_BYTES);
  if (!isName) return 'zip-name';
  // The upper half contains the Unix file type.
  const mode = (entry.externalFileAttributes >>> 16) & 0o170000;
  if (mode !== 0 && mode !== 0o100000) return 'zip-link';
  if (entry.isEncrypted()) return 'zip-encrypted';
  const { uncompressedSize: size, compressedSize } = entry;
  budget.entries -= 1;
  if (
    size > compressedSize * MAX_RATIO + SMALL_BYTES ||
    size > budget.bytes ||
    budget.entries <= 0
  ) {
    return 'zip-bomb';
  }
  budget.bytes -= size;
  return undefined;
}

/** Keeps the readable part of a damaged entry, because a truncated message is better than none. */
async function unpackEntry(
  zip: YauzlZipFile,
  entry: YauzlEntry,
  to: string,
  onProblem: (problem: ZipProblem | string) => void,
): Promise<void> {
  try {
    mkdirSync(path.dirname(to), { recursive: true, mode: 0o700 });
    const stream = await zip.openReadStreamPromise(entry);
    await pipeline(stream, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOSPC') throw error;
    onProblem(errno ?? 'zip-damaged');
  }
}
