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
 * Returns the content of a file in the cache, or undefined. Compiled code is code: it must be our own, which it is not
 * where sudo has kept another user's HOME.
 */
export function cachedCode(file: string): Buffer | undefined {
  return attempt(() => {
    const descriptor = openSync(file, 'r');
    try {
      const stats = fstatSync(descriptor);
      const ours = process.geteuid === undefined || stats.uid === process.geteuid();
      return ours && (stats.mode & 0o022) === 0 ? readFileSync(descriptor) : undefined;
    } finally {
      closeSync(descriptor);
    }
  });
}

/**
 * Writes a file of the cache, in a folder that only this user can read; where that is not possible, nothing.
 *
 * @param code makes the content; called only where it can be written
 */
export function keepCode(file: string, code: () => Buffer): void {
  attempt(() => {
    const folder = path.dirname(file);
    const temporary = file.replace(/code$/, `${process.pid}.tmp`);
    makeFolder(path.dirname(folder));
    makeFolder(folder);
    const descriptor = openSync(temporary, 'wx', 0o600);
    try {
      writeFileSync(descriptor, code());
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
