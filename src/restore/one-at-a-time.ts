import { createHash } from 'node:crypto';
import { chmodSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { errnoName } from '../errors/mailkeep-error.ts';
import { restoreError } from '../errors/restore.ts';

/** Only the user reads it, like the journal. */
const FILE_MODE = 0o600;

/**
 * Holds a restore until the returned function is called, or the process ends, however it ends: two processes with one
 * plan would both find messages missing, and both send them. It is an exclusive transaction on a SQLite file next to the
 * journal; the archive's own lock stays free.
 *
 * @throws restore-running where another process holds it, restore-journal-unwritable
 */
export function holdRestore(journalFile: string, target: string, what: string): () => void {
  const name = createHash('sha256')
    .update(JSON.stringify([target, what]))
    .digest('hex');
  const file = `${journalFile}-restore-${name.slice(0, 16)}`;
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { timeout: 0 });
    database.exec('BEGIN EXCLUSIVE');
    chmodSync(file, FILE_MODE);
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY'))
      throw restoreError('restore-running', { target }, error);
    throw restoreError('restore-journal-unwritable', { file, reason: errnoName(error) }, error);
  }
  const held = database;
  return () => {
    // Before the lock is free: the file may be the next holder's afterwards.
    rmSync(file, { force: true });
    held.close();
  };
}
