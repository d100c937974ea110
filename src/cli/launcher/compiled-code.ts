import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

const UNUSED_AFTER_MS = 30 * 24 * 3_600_000;
const OURS = /^reading-.*\.(code|tmp)$/;
/** Of the source and of both, 4 bytes each. V8 copies code that does not begin at a multiple of 8. */
const CHECKSUM_BYTES = 8;

/** Returns the CRC-32 of a script: compiled code belongs to exactly one source. */
export function sumOfSource(source: Buffer): number {
  return crc32(source, 0);
}

/**
 * Returns the compiled code in the content of a file, or undefined where the file is damaged or belongs to another
 * source. V8 checks little more than lengths: it crashes on code with a flipped bit.
 *
 * @param content the CRC-32 of the source and that of source and code, big-endian, then the code; the build
 *   (src/bootstrap/build.mjs) and `keepCode` write it
 */
export function checkedCode(content: Buffer, sourceSum: number): Buffer | undefined {
  const code = content.subarray(CHECKSUM_BYTES);
  const intact = content.subarray(0, CHECKSUM_BYTES).equals(checksum(code, sourceSum));
  return intact ? code : undefined;
}

function checksum(code: Buffer, sourceSum: number): Buffer {
  const sums = Buffer.alloc(CHECKSUM_BYTES);
  sums.writeUInt32BE(sourceSum, 0);
  sums.writeUInt32BE(crc32(code, sourceSum), 4);
  return sums;
}

/** Loaded when it is needed, and not by an old Node.js. To load `crypto` takes a tenth of a search; `zlib` it needs anyway. */
function crc32(data: Buffer, before: number): number {
  return process.getBuiltinModule('zlib').crc32(data, before);
}

/**
 * Returns the file in the user's cache for compiled code with this name, or undefined where there is no such place. Code
 * that comes with the program is refused by every version of Node.js but the one that built it.
 */
export function cachedCodeFile(name: string): string | undefined {
  const home = process.env.HOME;
  const xdg = process.env.XDG_CACHE_HOME;
  const caches =
    xdg !== undefined && path.isAbsolute(xdg)
      ? xdg
      : home !== undefined && path.isAbsolute(home)
        ? path.join(home, '.cache')
        : undefined;
  return caches === undefined ? undefined : path.join(caches, 'mailkeep', name);
}

/**
 * Returns the compiled code of a source from the cache, or undefined. Compiled code is code: only this user may have
 * been able to write it. Under `sudo -E`, for example, the cache belongs to another user.
 */
export function cachedCode(file: string, sourceSum: number): Buffer | undefined {
  return attempt(() => {
    if (!isOurFolder(path.dirname(file))) return undefined;
    // Without O_NONBLOCK, opening a pipe waits for a writer. Windows has neither flag: they are undefined, so 0, there.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const descriptor = openSync(file, flags);
    try {
      const stats = fstatSync(descriptor);
      if (!stats.isFile() || !onlyWeWrite(stats)) return undefined;
      return checkedCode(readFileSync(descriptor), sourceSum);
    } finally {
      closeSync(descriptor);
    }
  });
}

/**
 * Writes compiled code to a file of the cache. Writes nothing where the cache, or the folder that it would be created
 * in, belongs to another user, or where the file system fails.
 *
 * @param makeCode makes the code; called only if it can be written
 */
export function keepCode(file: string, sourceSum: number, makeCode: () => Buffer): void {
  attempt(() => {
    const folder = path.dirname(file);
    if (!makeFolders(folder) || !isOurFolder(folder)) return;
    const temporary = file.replace(/code$/, `${process.pid}.tmp`);
    const descriptor = openSync(temporary, 'wx', 0o600);
    try {
      try {
        const code = makeCode();
        writeFileSync(descriptor, Buffer.concat([checksum(code, sourceSum), code]));
      } finally {
        closeSync(descriptor);
      }
      renameSync(temporary, file);
    } catch (error) {
      // Such as a full disk. Each run would leave another one.
      unlinkSync(temporary);
      throw error;
    }
    dropUnused(folder);
  });
}

/**
 * Creates a folder and its parent where they are missing. Returns whether it could; false where the nearest one that
 * exists belongs to another user, who could not remove what we create there.
 */
function makeFolders(folder: string): boolean {
  const missing: string[] = [];
  for (const each of [folder, path.dirname(folder)]) {
    if (statSync(each, { throwIfNoEntry: false }) !== undefined) break;
    missing.unshift(each);
  }
  const first = missing[0];
  if (first === undefined) return true;
  if (!isOurs(statSync(path.dirname(first)))) return false;
  for (const each of missing) makeFolder(each);
  return true;
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, 0o700);
  } catch (error) {
    // Another command has created it in the meantime.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/** Whether only we can put files into the folder. A link is not followed: it may be changed to another folder. */
function isOurFolder(folder: string): boolean {
  const stats = lstatSync(folder);
  return stats.isDirectory() && onlyWeWrite(stats);
}

function onlyWeWrite(stats: Stats): boolean {
  return isOurs(stats) && (stats.mode & 0o022) === 0;
}

/** Whether it belongs to the user of this process; true where the system has no numbers for users. */
function isOurs(stats: Stats): boolean {
  return process.geteuid === undefined || stats.uid === process.geteuid();
}

/** Removes code of versions that are not in use any more. */
function dropUnused(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    if (OURS.test(name) && lstatSync(file).mtime.getTime() < Date.now() - UNUSED_AFTER_MS) {
      unlinkSync(file);
    }
  }
}

/** The result; undefined where the file system fails: a cache is not worth an error. */
function attempt<T>(work: () => T | undefined): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw error;
  }
}
