import { accessSync, chmodSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { makeFoldersDurably } from '../../disk/make-folders.ts';
import { archiveInUse, archiveLockFailed } from '../../errors/archive.ts';
import { FILE_MODE, FOLDER_MODE } from '../format/layout.ts';
import { dropHolder, noteHolder, noteOfHolder } from './lock-holder.ts';

/** The right to write to an archive, held until released or until the process ends, however it ends. */
export interface ArchiveLock {
  release(): void;
}

/**
 * Takes the one writer's lock of an archive: an exclusive transaction on the SQLite file `lock`, which the system frees
 * even after `kill -9`. It never waits. Creates the folder (0700) when there is none.
 *
 * Nothing else may open the file `lock` within this process: POSIX drops a process's locks on a file when any of its
 * descriptors of it is closed.
 *
 * @throws `archive-in-use` when another process holds it; `archive-lock-failed` when the file cannot be locked at all
 */
export function acquireLock(dir: string): ArchiveLock {
  const held = lockFile(dir);
  noteHolder(dir);
  let released = false;
  return {
    release: () => {
      // After the first release the note may be that of the next holder.
      if (!released) dropHolder(dir);
      released = true;
      // Closing rolls the empty transaction back and frees the lock; a second release is harmless.
      held.close();
    },
  };
}

/**
 * Takes the lock and frees it at once: returns if nobody holds it.
 *
 * @throws as `acquireLock`
 */
export function tryLock(dir: string): void {
  lockFile(dir).close();
}

function lockFile(dir: string): Database.Database {
  let database: Database.Database | undefined;
  try {
    makeFoldersDurably(dir, FOLDER_MODE);
    const path = join(dir, 'lock');
    const isNew = !existsSync(path);
    database = new Database(path, { timeout: 0 });
    if (isNew) chmodSync(path, FILE_MODE);
    // SQLite begins on a file that it can only read as well, where no lock keeps anybody away.
    accessSync(path, constants.R_OK | constants.W_OK);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw archiveInUse(dir, noteOfHolder(dir), error);
    throw archiveLockFailed(dir, whyNot(dir, error));
  }
  return database;
}

/** The system's reason, where it has one: SQLite reports only that it cannot open a file. */
function whyNot(dir: string, error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  try {
    const path = join(dir, 'lock');
    accessSync(existsSync(path) ? path : dir, constants.R_OK | constants.W_OK);
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    return error;
  } catch (reason) {
    return reason;
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');
}
