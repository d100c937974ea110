import { closeSync, openSync } from 'node:fs';

/**
 * Makes a file that only its owner may read, if there is none. SQLite would make it by the process's umask, and
 * gives its `-wal` and `-shm` files the permissions of the database. Where it cannot be made, opening the
 * database fails for the same reason and says so in its own terms.
 */
export function makePrivateFile(file: string): void {
  let made: number;
  try {
    made = openSync(file, 'a', 0o600);
  } catch {
    return;
  }
  closeSync(made);
}
