import { isUtf8 } from 'node:buffer';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { catalogError, socketError } from './error-tables.ts';
import { errnoName, errnoOf, NOT_REGULAR } from './errors.ts';

/**
 * The path of a file. To most systems a name is bytes, and older disks hold names that are not UTF-8: no text opens
 * such a file, so its path is a buffer.
 */
export type FilePath = string | Buffer;

/** Returns the name that a folder lists, as text where it is UTF-8. */
export function listedName(bytes: Buffer): FilePath {
  return isUtf8(bytes) ? bytes.toString('utf8') : bytes;
}

/** Returns the path of a name within a folder. */
export function joinedPath(folder: FilePath, name: FilePath): FilePath {
  if (typeof folder === 'string' && typeof name === 'string') return path.join(folder, name);
  return Buffer.concat([Buffer.from(folder), Buffer.from(path.sep), Buffer.from(name)]);
}

/** Returns a path as text to show or to name folders by: bytes that are not UTF-8 are escaped, such as `B\xFCro`. */
export function shownPath(file: FilePath): string {
  if (typeof file === 'string') return file;
  let shown = '';
  for (let at = 0; at < file.length; ) {
    const length = characterLength(file, at);
    const piece = file.subarray(at, at + Math.max(1, length));
    shown += length > 0 ? piece.toString('utf8') : `\\x${piece.toString('hex').toUpperCase()}`;
    at += piece.length;
  }
  return shown;
}

/** Bytes of the UTF-8 character at an offset; 0 where none begins there. */
function characterLength(bytes: Buffer, at: number): number {
  return [1, 2, 3, 4].find((length) => isUtf8(bytes.subarray(at, at + length))) ?? 0;
}

/** What Node.js puts where an argument is not UTF-8. */
const REPLACED = '\ufffd';

/**
 * Returns the paths that an argument of the command line can mean. Node.js reads arguments as UTF-8 and replaces other
 * bytes, so that the name of an existing file may arrive as one that does not exist: every file that reads the same is
 * returned then. An argument that names nothing is returned as it is.
 *
 * @param given absolute
 */
export function pathsMeant(given: string): FilePath[] {
  if (!given.includes(REPLACED) || existsSync(given)) return [given];
  const { root } = path.parse(given);
  let found: FilePath[] = [root];
  for (const level of given.slice(root.length).split(path.sep)) {
    found = found.flatMap((folder) => alike(folder, level));
  }
  return found.length === 0 ? [given] : found;
}

function alike(folder: FilePath, level: string): FilePath[] {
  if (!level.includes(REPLACED)) return [joinedPath(folder, level)];
  try {
    return readdirSync(folder, { encoding: 'buffer' })
      .filter((name) => name.toString('utf8') === level)
      .map((name) => joinedPath(folder, listedName(name)));
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return [];
  }
}

/** Whether a path is a folder or lies in it, whatever links lead there. Neither need be there yet. */
export function isWithin(target: string, folder: string): boolean {
  const relative = path.relative(resolved(folder), resolved(target));
  return relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative);
}

/** Links are followed as far as the path is there. */
function resolved(target: string): string {
  try {
    return realpathSync(target);
  } catch (error) {
    const parent = path.dirname(target);
    if (errnoName(error) !== 'ENOENT' || parent === target) return target;
    return path.join(resolved(parent), path.basename(target));
  }
}

/**
 * Makes a folder with its missing parents, all of this mode; quietly does nothing where it exists. Node's own way of it
 * never ends where the system says that a parent is missing which is there, as below /proc.
 *
 * @throws system errors
 */
export function makeFolders(folder: string, mode: number): void {
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    const parent = path.dirname(folder);
    if (errnoOf(error) !== 'ENOENT') {
      if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return;
      throw error;
    }
    if (existsSync(parent)) throw error;
    makeFolders(parent, mode);
    makeFolders(folder, mode);
  }
}

/** A parent folder may belong to another user and be unreadable; and some systems cannot sync a folder. */
const NOT_SYNCED = new Set(['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EISDIR']);

/**
 * The same, so that a power cut leaves the folders that were made: without it what is durable in them can be lost with
 * their names.
 *
 * @throws system errors
 */
export function makeFoldersDurably(folder: string, mode: number): void {
  const above: string[] = [];
  for (let at = folder; !existsSync(at); at = path.dirname(at)) above.push(path.dirname(at));
  makeFolders(folder, mode);
  for (const parent of above) syncNow(parent);
}

function syncNow(folder: string): void {
  let opened: number | undefined;
  try {
    opened = openSync(folder, 'r');
    fsyncSync(opened);
  } catch (error) {
    if (!NOT_SYNCED.has(errnoOf(error) ?? '')) throw error;
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

/**
 * Makes a file that only its owner may read, if there is none. SQLite would make it by the process's umask, and
 * gives its `-wal` and `-shm` files the permissions of the database. Where it cannot be made, opening the
 * database fails for the same reason and says so in its own terms.
 *
 * @throws `catalog-damaged` where something else than a file is: opening a pipe would wait for its other end for ever
 */
export function makePrivateFile(file: string): void {
  const stats = statOf(file);
  if (stats?.isFile() === true) return;
  if (stats !== undefined) throw catalogError('catalog-damaged', { file, reason: 'not a file' });
  let made: number;
  try {
    made = openSync(file, 'wx', 0o600);
  } catch {
    return;
  }
  closeSync(made);
}

/** Returns undefined where nothing exists, or where that cannot be determined. */
function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** A socket's address holds 108 bytes on Linux and 104 elsewhere, with a zero at the end. */
const LONGEST_PATH_BYTES = 103;

/** Returns whether a path is a socket of this user's, or, for root, of the owner of the archive. */
export function isOwnSocket(socket: string, dataDir: string): boolean {
  const stat = lstatSync(socket);
  return stat.isSocket() && isOwn(stat, dataDir);
}

/** Returns whether nobody but this user (for root, the owner of the archive) can reach what is in a folder. */
export function isPrivateFolder(stat: Stats, dataDir: string | null): boolean {
  return stat.isDirectory() && isOwn(stat, dataDir) && (stat.mode & 0o077) === 0;
}

/** Root may maintain the archive of another user; it then asks that user's daemon. */
function isOwn({ uid }: Stats, dataDir: string | null): boolean {
  const own = userInfo().uid;
  // Where users have no numbers, -1.
  if (own < 0 || uid === own) return true;
  return own === 0 && dataDir !== null && uid === lstatSync(dataDir).uid;
}

/** Returns whether a path is short enough for the address of a socket. */
export function fitsSocket(socket: string): boolean {
  return Buffer.byteLength(socket) <= LONGEST_PATH_BYTES;
}

/**
 * Returns the user's own folder for sockets, made if it was not there; in the system's folder for temporary files where
 * the user has none.
 *
 * @param nameLength bytes of the name of a socket, which must fit behind the folder
 * @throws daemon-socket-folder
 */
export function privateFolder(
  { XDG_RUNTIME_DIR }: Readonly<Record<string, string | undefined>>,
  nameLength: number,
): string {
  if (XDG_RUNTIME_DIR !== undefined && existsSync(XDG_RUNTIME_DIR)) {
    const folder = path.join(XDG_RUNTIME_DIR, 'mailkeep');
    if (fitsSocket(path.join(folder, 'x'.repeat(nameLength)))) return privateOnly(folder);
  }
  return privateOnly(path.join(tmpdir(), `mailkeep-${userInfo().uid}`));
}

function privateOnly(folder: string): string {
  try {
    makeFolders(folder, 0o700);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw socketError('daemon-socket-folder', { folder });
  }
  // Anybody may have made it: a socket in somebody else's folder would be theirs to replace.
  if (!isPrivateFolder(lstatSync(folder), null)) {
    throw socketError('daemon-socket-folder', { folder });
  }
  return folder;
}

/** Whoever opens a pipe would wait for its other end; the system's flag does not exist on Windows. */
const NOT_WAITING = constants.O_NONBLOCK ?? 0;

/**
 * Opens a regular file and returns its descriptor. A pipe, a socket or a device in its place is an error, not a hang.
 *
 * @throws system errors; EISDIR for a folder, and an error with the code ENOTREG for anything else that is no file
 */
export function openRegularFile(file: FilePath, access: 'read' | 'write' = 'read'): number {
  const descriptor = openWithoutWaiting(file, access);
  const problem = problemOf(fstatSync(descriptor));
  if (problem === undefined) return descriptor;
  closeSync(descriptor);
  throw notRegular(file, problem);
}

/**
 * Reads a small file whole.
 *
 * @param most bytes; a larger file is not read
 * @throws see `openRegularFile`; EFBIG for a file of more than `most` bytes
 */
export function readRegularFile(file: string, most = Number.POSITIVE_INFINITY): Buffer {
  const descriptor = openRegularFile(file);
  try {
    if (fstatSync(descriptor).size > most) throw tooLarge(file);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function openWithoutWaiting(file: FilePath, access: 'read' | 'write'): number {
  const mode = access === 'read' ? constants.O_RDONLY : constants.O_RDWR;
  try {
    return openSync(file, mode | NOT_WAITING);
  } catch (error) {
    // A socket, or a device without hardware.
    if (errnoOf(error) === 'ENXIO') throw notRegular(file, NOT_REGULAR);
    throw error;
  }
}

function problemOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  return stats.isDirectory() ? 'EISDIR' : NOT_REGULAR;
}

/** Returns the system's error for a file that is larger than it may be. */
export function tooLarge(file: string): Error {
  const facts = { code: 'EFBIG', syscall: 'read', path: file };
  return Object.assign(new Error(`${file} is too large`), facts);
}

function notRegular(file: FilePath, code: string): Error {
  const shown = shownPath(file);
  const facts = { code, syscall: 'open', path: shown };
  return Object.assign(new Error(`${shown} is not a regular file`), facts);
}
