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
/** Two 4-byte checksums: source, and source with code. The code must stay aligned to 8 bytes, or V8 copies it. */
const CHECKSUM_BYTES = 8;

/** Returns a script's CRC-32, which identifies the source of compiled code. */
export function sourceChecksum(source: Buffer): number {
  return crc32(source, 0);
}

/**
 * Returns the compiled code in a file, or undefined if it is damaged or belongs to another source. V8 checks little
 * more than lengths, and crashes on a flipped bit.
 * @param content the CRC-32 of the source and that of source and code, big-endian, then the code; written by the build
 * (src/bootstrap/build.mjs) and `storeCode`
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
 * Loads `zlib` on demand, because old versions of Node.js lack `crc32`. Loading `crypto` would take a tenth of the time
 * of a search; `zlib` is needed anyway.
 */
function crc32(data: Buffer, before: number): number {
  return process.getBuiltinModule('zlib').crc32(data, before);
}

/**
 * Returns the path of a compiled-code file in the user's cache, or undefined if there is no cache folder. Code shipped
 * with the program is accepted only by the Node.js version that built it.
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
 * Returns the cached compiled code of a source, or undefined. The code is executable, so only this user may have write
 * access. With `sudo -E`, for example, the cache belongs to another user.
 */
export function cachedCode(file: string, sourceSum: number): Buffer | undefined {
  return attempt(() => {
    if (!isOurFolder(path.dirname(file))) return undefined;
    // Opening a pipe without O_NONBLOCK would wait for a writer. Windows defines neither flag, so both are 0.
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
 * Writes compiled code to a cache file. Does nothing if the cache or its parent belongs to another user, or if the file
 * system fails.
 * @param makeCode creates the code; not called if the file cannot be written
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
      // If the disk is full, every run would otherwise leave a partial file behind.
      unlinkSync(temporary);
      throw error;
    }
    dropUnused(folder);
  });
}

/**
 * Creates a missing folder and its parent. Returns false on failure, or if the nearest existing folder belongs to
 * another user, who could not remove our files.
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
    // Another command created it in the meantime.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/** Returns whether only this user can write to the folder. Refuses links, because their target can change. */
function isOurFolder(folder: string): boolean {
  const stats = lstatSync(folder);
  return stats.isDirectory() && onlyWeWrite(stats);
}

function onlyWeWrite(stats: Stats): boolean {
  return isOurs(stats) && (stats.mode & 0o022) === 0;
}

/** Returns true on systems without user ids. */
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

/** Returns undefined if the file system fails, because cache failures are not errors. */
function attempt<T>(work: () => T | undefined): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw error;
  }
}
