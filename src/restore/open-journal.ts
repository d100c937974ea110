import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { makePrivateFile } from '../disk/private-file.ts';
import { errnoName, MailkeepError } from '../errors/mailkeep-error.ts';
import { restoreError } from '../errors/restore.ts';
import { openState, stateFile } from '../state/state-file.ts';
import { RestoreJournal } from './journal.ts';

/** How long another process may hold the database, in milliseconds. */
const BUSY_TIMEOUT = 5_000;

/** Where a journal is kept: in the state of an archive, or in a file of its own. */
export interface JournalPlace {
  readonly dataDir: string;
  readonly file: string | null;
}

/**
 * Opens the journal for a restore. The archive's own lock is not taken: what else is in its state belongs to others.
 *
 * @throws restore-journal-unwritable
 */
export function openJournal({ dataDir, file }: JournalPlace): RestoreJournal {
  const path = file ?? stateFile(dataDir);
  try {
    if (file !== null) makePrivateFile(file);
    else if (!existsSync(path)) openState(dataDir).close();
    const database = new Database(path, { fileMustExist: true, timeout: BUSY_TIMEOUT });
    database.pragma('journal_mode = WAL');
    // A power cut may lose the last entries: what they stand for is then found in the folder.
    database.pragma('synchronous = NORMAL');
    // A read-only file system fails only at the first write.
    database.exec('BEGIN IMMEDIATE; ROLLBACK');
    return new RestoreJournal(database);
  } catch (error) {
    const cause = error instanceof MailkeepError ? error.cause : error;
    throw restoreError(
      'restore-journal-unwritable',
      { file: path, reason: errnoName(cause) },
      error,
    );
  }
}

/** Opens the journal to see what is unfinished; undefined where there is none that can be read. */
export function readJournal({ dataDir, file }: JournalPlace): RestoreJournal | undefined {
  const path = file ?? stateFile(dataDir);
  if (!existsSync(path)) return undefined;
  try {
    return new RestoreJournal(new Database(path, { readonly: true, timeout: BUSY_TIMEOUT }));
  } catch (error) {
    if (error instanceof Database.SqliteError) return undefined;
    throw error;
  }
}
