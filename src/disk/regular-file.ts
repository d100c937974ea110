import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { type FilePath, shownPath } from './byte-path.ts';

/** Code of the error for a pipe, a socket or a device where a file is expected; no name of the system fits. */
export const NOT_REGULAR = 'ENOTREG';

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
