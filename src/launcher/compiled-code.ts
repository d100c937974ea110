import { createHash } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

const UNUSED_AFTER_MS = 30 * 24 * 3_600_000;
const OURS = /^reading-.*\.(code|tmp)$/;
const CHECKSUM_BYTES = 32;

/** Returns the SHA-256 of a script, in hex: compiled code belongs to exactly one source. */
export function hashOfSource(source: Buffer): string {
  return createHash('sha256').update(source).digest('hex');
}

/**
 * Returns the compiled code in the content of a file, or undefined where the file is damaged or belongs to another
 * source. V8 checks little more than lengths: it crashes on code with a flipped bit.
 *
 * @param content a SHA-256 of `sourceHash` and the code, 32 bytes, then the code; the build (src/bootstrap/build.mjs)
 *   and `keepCode` write it
 */
export function checkedCode(content: Buffer, sourceHash: string): Buffer | undefined {
  const code = content.subarray(CHECKSUM_BYTES);
  const intact = content.subarray(0, CHECKSUM_BYTES).equals(checksum(code, sourceHash));
  return intact ? code : undefined;
}

function checksum(code: Buffer, sourceHash: string): Buffer {
  return createHash('sha256').update(sourceHash).update(code).digest();
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
 * Returns the compiled code of a source from the cache, or undefined. Compiled code is code: it must be our own, which it is not
 * where sudo has kept another user's HOME.
 */
export function cachedCode(file: string, sourceHash: string): Buffer | undefined {
  return attempt(() => {
    const descriptor = openSync(file, 'r');
    try {
      const stats = fstatSync(descriptor);
      const ours = process.geteuid === undefined || stats.uid === process.geteuid();
      if (!ours || (stats.mode & 0o022) !== 0) return undefined;
      return checkedCode(readFileSync(descriptor), sourceHash);
    } finally {
      closeSync(descriptor);
    }
  });
}

/**
 * Writes a file of the cache, in a folder that only this user can read; where that is not possible, nothing.
 *
 * @param makeCode makes the code; called only if it can be written
 */
export function keepCode(file: string, sourceHash: string, makeCode: () => Buffer): void {
  attempt(() => {
    const folder = path.dirname(file);
    const temporary = file.replace(/code$/, `${process.pid}.tmp`);
    makeFolder(path.dirname(folder));
    makeFolder(folder);
    const descriptor = openSync(temporary, 'wx', 0o600);
    try {
      const code = makeCode();
      writeFileSync(descriptor, Buffer.concat([checksum(code, sourceHash), code]));
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, file);
    dropUnused(folder);
  });
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, 0o700);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/** Removes code of versions that are not in use any more. */
function dropUnused(folder: string): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    if (OURS.test(name) && statSync(file).mtime.getTime() < Date.now() - UNUSED_AFTER_MS) {
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
