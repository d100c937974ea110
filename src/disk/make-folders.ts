import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { errnoName, errnoOf } from '../errors/mailkeep-error.ts';

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
