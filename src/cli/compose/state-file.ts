import { rmSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';

/**
 * What is convenient to remember and may be lost: proofs, coverage, learned rules, the limiter. One table of
 * JSON texts in `state.sqlite`, beside the archive.
 */
export interface StateFile {
  get(scope: string, key: string): unknown;
  /** Null forgets. */
  set(scope: string, key: string, value: unknown): void;
  close(): void;
}

const VERSION = 1;

function stateFile(dataDir: string): string {
  return path.join(dataDir, 'state.sqlite');
}

/** Opens the state for the writer of the archive. One that cannot be read is begun anew: nothing in it is needed. */
export function openState(dataDir: string): StateFile {
  const file = stateFile(dataDir);
  try {
    return over(openForWriting(file));
  } catch (error) {
    if (!(error instanceof Database.SqliteError) || !/^SQLITE_(CORRUPT|NOTADB)/.test(error.code)) {
      throw error;
    }
    for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
    return over(openForWriting(file));
  }
}

/** Reads the state beside a writer or without one; undefined where there is none to read. */
export function readState(dataDir: string): StateFile | undefined {
  try {
    const database = new Database(stateFile(dataDir), { readonly: true, fileMustExist: true });
    if (database.pragma('user_version', { simple: true }) === VERSION) return over(database);
    database.close();
    return undefined;
  } catch (error) {
    if (error instanceof Database.SqliteError || error instanceof TypeError) return undefined;
    throw error;
  }
}

function openForWriting(file: string): Database.Database {
  const database = new Database(file, { timeout: 5_000 });
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  const version = database.pragma('user_version', { simple: true });
  if (version !== VERSION) {
    database.transaction(() => {
      database.exec('DROP TABLE IF EXISTS remembered');
      database.exec(
        'CREATE TABLE remembered (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID',
      );
      database.pragma(`user_version = ${VERSION}`);
    })();
  }
  return database;
}

function over(database: Database.Database): StateFile {
  const read = database
    .prepare<[string, string], string>('SELECT value FROM remembered WHERE scope = ? AND key = ?')
    .pluck();
  const write = database.readonly
    ? undefined
    : database.prepare(
        'INSERT INTO remembered (scope, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value',
      );
  const forget = database.readonly
    ? undefined
    : database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?');
  return {
    get(scope, key) {
      const text = read.get(scope, key);
      if (text === undefined) return undefined;
      const value: unknown = JSON.parse(text);
      return value;
    },
    set(scope, key, value) {
      if (value === null || value === undefined) forget?.run(scope, key);
      else write?.run(scope, key, JSON.stringify(value));
    },
    close: () => database.close(),
  };
}
