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

/** A file's path. A name that is not UTF-8, as found on older disks, must be a buffer: no string can open the file. */
export type FilePath = string | Buffer;

export function listedName(bytes: Buffer): FilePath {
  return isUtf8(bytes) ? bytes.toString('utf8') : bytes;
}

export function joinPath(folder: FilePath, name: FilePath): FilePath {
  if (typeof folder === 'string' && typeof name === 'string') return path.join(folder, name);
  return Buffer.concat([Buffer.from(folder), Buffer.from(path.sep), Buffer.from(name)]);
}

/** Returns a path as displayable text, with bytes that are not UTF-8 escaped, as in `B\xFCro`. */
export function shownPath(file: FilePath): string {
  if (typeof file === 'string') return file;
  let text = '';
  for (let at = 0; at < file.length; ) {
    const isCharacter = (length: number) => isUtf8(file.subarray(at, at + length));
    const length = [1, 2, 3, 4].find(isCharacter) ?? 0;
    const piece = file.subarray(at, at + Math.max(1, length));
    text += length > 0 ? piece.toString('utf8') : `\\x${piece.toString('hex').toUpperCase()}`;
    at += piece.length;
  }
  return text;
}

/** The character with which Node.js replaces invalid UTF-8 in arguments. */
const REPLACED = '\ufffd';

/**
 * Returns the paths that a command line argument can refer to. Node.js replaces bytes that are not UTF-8, so this
 * returns every existing file whose name decodes to the same text. If there is none, returns the argument.
 * @param argument absolute path
 */
export function possiblePaths(argument: string): FilePath[] {
  if (!argument.includes(REPLACED) || existsSync(argument)) return [argument];
  const { root } = path.parse(argument);
  let matches: FilePath[] = [root];
  for (const level of argument.slice(root.length).split(path.sep)) {
    matches = matches.flatMap((folder) => matchingNames(folder, level));
  }
  return matches.length === 0 ? [argument] : matches;
}

function matchingNames(folder: FilePath, level: string): FilePath[] {
  if (!level.includes(REPLACED)) return [joinPath(folder, level)];
  try {
    return readdirSync(folder, { encoding: 'buffer' })
      .filter((name) => name.toString('utf8') === level)
      .map((name) => joinPath(folder, listedName(name)));
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return [];
  }
}

/** Reports whether a path is a directory or is inside it, after resolving links. Neither has to exist. */
export function isWithin(target: string, folder: string): boolean {
  const relative = path.relative(resolveLinks(folder), resolveLinks(target));
  return relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative);
}

/** Resolves links in the existing part of a path. */
function resolveLinks(target: string): string {
  try {
    return realpathSync(target);
  } catch (error) {
    const parent = path.dirname(target);
    if (errnoName(error) !== 'ENOENT' || parent === target) return target;
    return path.join(resolveLinks(parent), path.basename(target));
  }
}

/**
 * Creates a directory and its missing parents, all with this mode. Does nothing if the directory exists. Node's
 * recursive `mkdir` loops forever if the system reports an existing parent as missing, as it does under /proc.
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

/** Errors to ignore: parent directories can be unreadable, and some systems cannot sync directories. */
const NOT_SYNCED = new Set(['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EISDIR']);

/**
 * Like `makeFolders`, but survives a power cut. Otherwise, even durable files can vanish along with their directories.
 * @throws system errors
 */
export function makeFoldersDurably(folder: string, mode: number): void {
  const parents: string[] = [];
  for (let at = folder; !existsSync(at); at = path.dirname(at)) parents.push(path.dirname(at));
  makeFolders(folder, mode);
  for (const parent of parents) syncFolder(parent);
}

/** Makes a directory's entries durable if the system supports it. */
export function syncFolder(folder: string): void {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(folder, 'r');
    fsyncSync(descriptor);
  } catch (error) {
    if (!NOT_SYNCED.has(errnoOf(error) ?? '')) throw error;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/**
 * Creates a file that only its owner can read. Does nothing if the file exists. SQLite would apply the umask, and gives
 * its `-wal` and `-shm` files the database's permissions. If creation fails, opening the database reports the reason.
 * @throws `catalog-damaged` if it is not a regular file, because opening a pipe would wait forever for its other end
 */
export function makePrivateFile(file: string): void {
  const stats = statOf(file);
  if (stats?.isFile() === true) return;
  if (stats !== undefined) throw catalogError('catalog-damaged', { file, reason: 'not a file' });
  let descriptor: number;
  try {
    descriptor = openSync(file, 'wx', 0o600);
  } catch {
    return;
  }
  closeSync(descriptor);
}

function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** A socket address holds 108 bytes on Linux and 104 elsewhere, including the terminating zero. */
const MAX_PATH_BYTES = 103;

/** Reports whether a path is a socket owned by this user or, if this user is root, by the archive's owner. */
export function isOwnSocket(socket: string, dataDir: string): boolean {
  const stat = lstatSync(socket);
  return stat.isSocket() && isOwn(stat, dataDir);
}

/** Reports whether only this user (or, for root, the archive's owner) can access a directory. */
export function isPrivateFolder(stat: Stats, dataDir: string | null): boolean {
  return stat.isDirectory() && isOwn(stat, dataDir) && (stat.mode & 0o077) === 0;
}

/** Root can maintain another user's archive through that user's daemon. */
function isOwn({ uid }: Stats, dataDir: string | null): boolean {
  const user = userInfo().uid;
  // -1 on systems without numeric user IDs.
  if (user < 0 || uid === user) return true;
  return user === 0 && dataDir !== null && uid === lstatSync(dataDir).uid;
}

export function isValidSocketPath(socket: string): boolean {
  return Buffer.byteLength(socket) <= MAX_PATH_BYTES;
}

/**
 * Returns the user's private directory for sockets, creating it if needed. Falls back to one in the system's temporary
 * directory.
 * @param nameLength length of the socket's name in bytes; the full path must fit in a socket address
 * @throws daemon-socket-folder
 */
export function privateFolder(
  { XDG_RUNTIME_DIR }: Readonly<Record<string, string | undefined>>,
  nameLength: number,
): string {
  if (XDG_RUNTIME_DIR !== undefined && existsSync(XDG_RUNTIME_DIR)) {
    const folder = path.join(XDG_RUNTIME_DIR, 'mailkeep');
    if (isValidSocketPath(path.join(folder, 'x'.repeat(nameLength)))) return ensurePrivate(folder);
  }
  return ensurePrivate(path.join(tmpdir(), `mailkeep-${userInfo().uid}`));
}

function ensurePrivate(folder: string): string {
  try {
    makeFolders(folder, 0o700);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw socketError('daemon-socket-folder', { folder });
  }
  // Another user may have created the directory, and could then replace a socket in it.
  if (!isPrivateFolder(lstatSync(folder), null)) {
    throw socketError('daemon-socket-folder', { folder });
  }
  return folder;
}

/** Without this flag, opening a pipe would wait for its other end. Windows does not have the flag. */
const NOT_WAITING = constants.O_NONBLOCK ?? 0;

/**
 * Opens a regular file and returns its descriptor. Fails for a pipe, socket or device instead of waiting.
 * @throws system errors; EISDIR for a directory, ENOTREG for any other kind of file
 */
export function openRegularFile(file: FilePath, access: 'read' | 'write' = 'read'): number {
  const descriptor = openWithoutWaiting(file, access);
  const stats = fstatSync(descriptor);
  if (stats.isFile()) return descriptor;
  closeSync(descriptor);
  throw irregularError(file, stats.isDirectory() ? 'EISDIR' : NOT_REGULAR);
}

/**
 * Reads a whole small file.
 * @throws errors from `openRegularFile`; EFBIG if the file is larger than `most` bytes
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
    // The path is a socket, or a device without hardware.
    if (errnoOf(error) === 'ENXIO') throw irregularError(file, NOT_REGULAR);
    throw error;
  }
}

export function tooLarge(file: string): Error {
  const facts = { code: 'EFBIG', syscall: 'read', path: file };
  return Object.assign(new Error(`${file} is too large`), facts);
}

function irregularError(file: FilePath, code: string): Error {
  const text = shownPath(file);
  const facts = { code, syscall: 'open', path: text };
  return Object.assign(new Error(`${text} is not a regular file`), facts);
}
