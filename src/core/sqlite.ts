import { accessSync, constants, statfsSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { catalogError } from './error-tables.ts';
import { errnoName, type MailkeepError } from './errors.ts';

/** Opens a temporary private database that SQLite removes when the process exits. */
export function scratchDatabase(schema: string): Database.Database {
  const db = new Database('');
  db.pragma('journal_mode = OFF');
  db.pragma('synchronous = OFF');
  db.exec(schema);
  return db;
}

/** Runs SQL text on a database. Prepares each distinct text only once. */
export class Statements {
  readonly #statements = new Map<string, Database.Statement<unknown[]>>();

  constructor(readonly db: Database.Database) {}

  run(sql: string, ...values: unknown[]): number {
    return Number(this.#prepare(sql).run(...values).lastInsertRowid);
  }

  has(sql: string, ...values: unknown[]): boolean {
    return this.#prepare(sql).get(...values) !== undefined;
  }

  // The SQL determines the row type.
  get<Row>(sql: string, ...values: unknown[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  all<Row>(sql: string, ...values: unknown[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  /** The database cannot be written to until the iterator is exhausted or closed. */
  iterate<Row>(sql: string, ...values: unknown[]): IterableIterator<Row> {
    return this.db.prepare<unknown[], Row>(sql).iterate(...values);
  }

  #prepare(sql: string): Database.Statement<unknown[]> {
    const cached = this.#statements.get(sql);
    if (cached !== undefined) return cached;
    const statement = this.db.prepare<unknown[]>(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/**
 * Messages with SQLite's general error code that indicate damage. The catalog's version has been checked, so missing
 * tables mean a damaged schema. JSON errors mean corrupted text, which a single flipped bit can cause.
 */
const DAMAGE =
  /^(?:invalid fts5 file format|vtable constructor failed|no such (?:table|column|index)|unsupported file format|table \S+ has no column|JSON cannot hold BLOB values|malformed JSON)/;

function isDamage({ code, message }: InstanceType<typeof Database.SqliteError>): boolean {
  return code === 'SQLITE_ERROR' && DAMAGE.test(message);
}

/** Returns the `catalog-…` error for a SQLite error, or undefined for an error that only a bug can cause. */
export function convertSqliteError(error: unknown, file: string): MailkeepError | undefined {
  if (!(error instanceof Database.SqliteError)) return undefined;
  const { code } = error;
  if (code.startsWith('SQLITE_BUSY')) return catalogError('catalog-busy', { file }, error);
  // SQLite preallocates its shared memory file, which fails on both a full disk and a broken one.
  if (code === 'SQLITE_FULL' || (code === 'SQLITE_IOERR_SHMSIZE' && !hasRoom(file)))
    return catalogError('catalog-disk-full', { file }, error);
  if (
    code.startsWith('SQLITE_CORRUPT') ||
    code === 'SQLITE_NOTADB' ||
    // The disk does not return the data that was written.
    code === 'SQLITE_IOERR_CORRUPTFS' ||
    isDamage(error)
  )
    return catalogError('catalog-damaged', { file, reason: code }, error);
  if (
    code.startsWith('SQLITE_IOERR') ||
    code.startsWith('SQLITE_CANTOPEN') ||
    code.startsWith('SQLITE_READONLY')
  )
    return catalogError('catalog-io', { file, reason: findDenial(file, code) ?? code }, error);
  return undefined;
}

/** In bytes; more than a database's shared memory file needs. */
const ROOM_BYTES = 1024 * 1024;

function hasRoom(file: string): boolean {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(path.dirname(file));
    // Some file systems do not count files.
    return bavail * bsize >= ROOM_BYTES && (files === 0 || ffree > 0);
  } catch {
    // If even this fails, the problem is not a full disk.
    return true;
  }
}

/** Distinguishes a missing permission from a read-only file system, which SQLite does not. */
function findDenial(file: string, code: string): string | undefined {
  if (!/^SQLITE_(?:CANTOPEN|READONLY)/.test(code)) return undefined;
  for (const [at, mode] of [
    [path.dirname(file), constants.W_OK | constants.X_OK],
    [file, constants.R_OK | constants.W_OK],
  ] as const) {
    try {
      accessSync(at, mode);
    } catch (error) {
      if (errnoName(error) !== 'ENOENT') return errnoName(error);
    }
  }
  return undefined;
}
