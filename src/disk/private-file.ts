import { closeSync, openSync, type Stats, statSync } from 'node:fs';
import { catalogError } from '../errors/catalog.ts';

/**
 * Makes a file that only its owner may read, if there is none. SQLite would make it by the process's umask, and
 * gives its `-wal` and `-shm` files the permissions of the database. Where it cannot be made, opening the
 * database fails for the same reason and says so in its own terms.
 *
 * @throws `catalog-damaged` where something else than a file is: opening a pipe would wait for its other end for ever
 */
export function makePrivateFile(file: string): void {
  const stats = statOf(file);
  if (stats?.isFile() === true) return;
  if (stats !== undefined) throw catalogError('catalog-damaged', { file, reason: 'not a file' });
  let made: number;
  try {
    made = openSync(file, 'wx', 0o600);
  } catch {
    return;
  }
  closeSync(made);
}

/** Returns undefined where nothing exists, or where that cannot be determined. */
function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
