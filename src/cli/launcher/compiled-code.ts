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
/** Two checksums of 4 bytes: source, and source with code. V8 copies code that is not aligned to 8 bytes. */
const CHECKSUM_BYTES = 8;

/** Returns a script's CRC-32. Compiled code belongs to exactly one source. */
export function sourceChecksum(source: Buffer): number {
  return crc32(source, 0);
}

/**
 * Returns the compiled code in a file, or undefined if it is damaged or for another source. V8 checks little more
 * than lengths and crashes on a flipped bit.
 * @param content the CRC-32 of the source and that of source and code, big-endian, then the code; written by the
 *   build (src/bootstrap/build.mjs) and `storeCode`
 */
export function verifyCachedCode(content: Buffer, sourceSum: number): Buffer | undefined {
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

/**
 * Loaded on demand, because an old Node.js lacks it. Loading `crypto` takes a tenth of a search; `zlib` is needed
 * anyway.
 */
function crc32(data: Buffer, before: number): number {
  return process.getBuiltinModule('zlib').crc32(data, before);
}

/**
 * Returns a compiled-code file in the user's cache, or undefined if there is no cache folder. Only the Node.js version
 * that built the program accepts the code shipped with it.
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
 * Returns a source's compiled code from the cache, or undefined. It is executable code, so only this user may have
 * write access. With `sudo -E`, for example, the cache belongs to another user.
 */
export function cachedCode(file: string, sourceSum: number): Buffer | undefined {
  return attempt(() => {
    if (!isOurFolder(path.dirname(file))) return undefined;
    // Without O_NONBLOCK, opening a pipe would wait for a writer. Both flags are undefined, so 0, on Windows.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const descriptor = openSync(file, flags);
    try {
      const stats = fstatSync(descriptor);
      if (!stats.isFile() || !onlyWeWrite(stats)) return undefined;
      return verifyCachedCode(readFileSync(descriptor), sourceSum);
    } finally {
      closeSync(descriptor);
    }
  });
}

/**
 * Writes compiled code to a cache file. Does nothing if the cache or its parent belongs to another user, or if the
 * file system fails.
 * @param makeCode creates the code; called only if it can be written
 */
export function storeCode(file: string, sourceSum: number, makeCode: () => Buffer): void {
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
      // The disk may be full, and each run would leave another file behind.
      unlinkSync(temporary);
      throw error;
    }
    dropUnused(folder);
  });
}

/**
 * Creates a missing folder and its parent. Returns false on failure, or if the nearest existing folder belongs to
 * another user, who could not remove what we create there.
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

/** Returns whether only this user can write to the folder. Links are refused, because their target may change. */
function isOurFolder(folder: string): boolean {
  const stats = lstatSync(folder);
  return stats.isDirectory() && onlyWeWrite(stats);
}

function onlyWeWrite(stats: Stats): boolean {
  return isOurs(stats) && (stats.mode & 0o022) === 0;
}

/** True on systems without user ids. */
function isOurs(stats: Stats): boolean {
  return process.geteuid === undefined || stats.uid === process.geteuid();
}

function dropUnused(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    if (OURS.test(name) && lstatSync(file).mtime.getTime() < Date.now() - UNUSED_AFTER_MS) {
      unlinkSync(file);
    }
  }
}

/** Returns undefined if the file system fails: a cache failure is not an error. */
function attempt<T>(work: () => T | undefined): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw error;
  }
}
