import { existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../errors/errno.ts';

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
