import { isUtf8 } from 'node:buffer';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../errors/mailkeep-error.ts';

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
