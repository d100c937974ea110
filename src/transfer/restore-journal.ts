import { createHash } from 'node:crypto';
import { chmodSync, existsSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { makePrivateFile } from '../core/files.ts';
import { Statements } from '../core/sqlite.ts';
import { openState, stateFile } from '../core/state.ts';
import type { MessageId } from '../core/types.ts';
import { isRestoreError, restoreError } from './errors.ts';
import type { RestoreConnection } from './imap-connection.ts';
import type { RestoreOptions } from './plan-restore.ts';
import type { Layout } from './restore-selection.ts';

const FILE_MODE = 0o600;

/**
 * Locks a restore until the returned function is called or the process exits. Two processes with the same plan would
 * both find the same messages missing and send them twice. The lock is an exclusive transaction on a SQLite file next
 * to the journal, so the archive's own lock remains free.
 *
 * @throws restore-running, restore-journal-unwritable
 */
function holdRestore(journalFile: string, target: string, key: string): () => void {
  const name = createHash('sha256')
    .update(JSON.stringify([target, key]))
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
  const lock = database;
  return () => {
    // Remove the file while it is locked. Once unlocked, it may belong to another process.
    rmSync(file, { force: true });
    lock.close();
  };
}

interface JournalFolder {
  readonly path: string;
  /** If this differs, the folder was recreated without the journaled messages. */
  readonly uidValidity: string;
}

interface JournalEntry {
  readonly number: number;
  readonly id: MessageId;
  /** Time of sending, in milliseconds since the epoch. */
  readonly startedAt: number;
  /** Null if the outcome is unknown or the server reports no uids. */
  readonly uid: number | null;
  /** True once the server has responded. */
  readonly isSettled: boolean;
}

export interface JournaledPlan {
  readonly number: number;
  readonly startedAt: number;
  readonly layout: Layout;
  /** Milliseconds since the epoch, from `--as-of`. */
  readonly asOf: number | null;
  readonly refused: string;
}

export interface Rate {
  readonly messagesPerSecond: number;
  readonly bytesPerSecond: number;
}

/**
 * Records messages sent by restores in a database that may contain other tables. A power failure may lose the last
 * entries; their messages are then matched by content.
 */
export class RestoreJournal {
  readonly #db: Statements;

  constructor(private readonly database: Database.Database) {
    this.#db = new Statements(database);
    if (database.readonly) return;
    database.exec(`
      CREATE TABLE IF NOT EXISTS restores (
        number INTEGER PRIMARY KEY, target TEXT NOT NULL, what TEXT NOT NULL, started_at INTEGER NOT NULL,
        levels TEXT NOT NULL, as_of INTEGER, refused TEXT NOT NULL, finished_at INTEGER,
        messages_per_second REAL, bytes_per_second REAL
      ) STRICT;
      CREATE TABLE IF NOT EXISTS restored (
        number INTEGER PRIMARY KEY, plan INTEGER NOT NULL, folder TEXT NOT NULL, uid_validity TEXT NOT NULL,
        id TEXT NOT NULL, begun_at INTEGER NOT NULL, uid INTEGER, settled INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX IF NOT EXISTS restored_folders ON restored (plan, folder, uid_validity)`);
  }

  /** @throws restore-running */
  hold(target: string, key: string): () => void {
    return holdRestore(this.database.name, target, key);
  }

  unfinished(target: string, key: string): JournaledPlan | undefined {
    if (!this.#exists()) return undefined;
    const row = this.#db.get<Omit<JournaledPlan, 'layout'> & { readonly levels: string }>(
      `SELECT number, started_at AS startedAt, levels, as_of AS asOf, refused FROM restores
       WHERE target = ? AND what = ? AND finished_at IS NULL ORDER BY number DESC LIMIT 1`,
      ...[target, key],
    );
    if (row === undefined) return undefined;
    const { levels, ...plan } = row;
    // Early versions stored only the levels.
    const layout: Layout | readonly string[] | null = JSON.parse(levels);
    return layout !== null && 'kind' in layout ? { ...plan, layout } : undefined;
  }

  begin(
    target: string,
    key: string,
    { startedAt, layout, asOf }: Pick<JournaledPlan, 'startedAt' | 'layout' | 'asOf'>,
  ): JournaledPlan {
    const number = this.#db.run(
      "INSERT INTO restores (target, what, started_at, levels, as_of, refused) VALUES (?, ?, ?, ?, ?, '')",
      ...[target, key, startedAt, JSON.stringify(layout), asOf],
    );
    return { number, startedAt, layout, asOf, refused: '' };
  }

  refuse({ number }: JournaledPlan, characters: string): void {
    this.#db.run('UPDATE restores SET refused = ? WHERE number = ?', characters, number);
  }

  /** Completes a plan and removes its entries, so that the same command starts a new plan. */
  finish({ number }: JournaledPlan, at: number): void {
    this.database.transaction(() => {
      this.#db.run('UPDATE restores SET finished_at = ? WHERE number = ?', at, number);
      this.#db.run('DELETE FROM restored WHERE plan = ?', number);
    })();
  }

  measured({ number }: JournaledPlan, { messagesPerSecond, bytesPerSecond }: Rate): void {
    this.#db.run(
      'UPDATE restores SET messages_per_second = ?, bytes_per_second = ? WHERE number = ?',
      ...[messagesPerSecond, bytesPerSecond, number],
    );
  }

  rateOf(target: string): Rate | null {
    if (!this.#exists()) return null;
    const rate = this.#db.get<Rate>(
      `SELECT messages_per_second AS messagesPerSecond, bytes_per_second AS bytesPerSecond FROM restores
       WHERE target = ? AND bytes_per_second IS NOT NULL ORDER BY number DESC LIMIT 1`,
      target,
    );
    return rate ?? null;
  }

  entriesOf({ number }: Pick<JournaledPlan, 'number'>): PlanJournal {
    return new PlanJournal(this.#db, number);
  }

  close(): void {
    this.database.close();
  }

  #exists(): boolean {
    const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'restores'";
    return this.#db.has(sql);
  }
}

/** Messages sent under a plan. Each APPEND has an entry, so a message can occur several times. */
export class PlanJournal {
  constructor(
    private readonly statements: Statements,
    private readonly plan: number,
  ) {}

  together<T>(act: () => T): T {
    return this.statements.db.transaction(act)();
  }

  begin({ path, uidValidity }: JournalFolder, id: MessageId, at: number): number {
    return this.statements.run(
      `INSERT INTO restored (plan, folder, uid_validity, id, begun_at, uid, settled)
       VALUES (?, ?, ?, ?, ?, NULL, 0)`,
      ...[this.plan, path, uidValidity, id, at],
    );
  }

  settle(number: number, uid: number | null): void {
    const sql = 'UPDATE restored SET uid = ?, settled = 1 WHERE number = ? AND plan = ?';
    this.statements.run(sql, uid, number, this.plan);
  }

  /** Removes an APPEND that the server refused or never received. */
  forget(number: number): void {
    this.statements.run('DELETE FROM restored WHERE number = ? AND plan = ?', number, this.plan);
  }

  /** Returns a folder's entries in sending order, except those of an earlier UIDVALIDITY. */
  entries({ path, uidValidity }: JournalFolder): JournalEntry[] {
    return this.statements
      .all<Omit<JournalEntry, 'isSettled'> & { readonly settled: 0 | 1 }>(
        `SELECT number, id, begun_at AS startedAt, uid, settled FROM restored
         WHERE plan = ? AND folder = ? AND uid_validity = ? ORDER BY number`,
        ...[this.plan, path, uidValidity],
      )
      .map(({ settled, ...entry }) => ({ ...entry, isSettled: settled === 1 }));
  }

  openSince(): number | null {
    const sql = 'SELECT max(begun_at) AS at FROM restored WHERE plan = ? AND settled = 0';
    return this.statements.get<{ at: number | null }>(sql, this.plan)?.at ?? null;
  }

  lost({ path, uidValidity }: JournalFolder): number {
    const sql =
      'SELECT count(*) AS lost FROM restored WHERE plan = ? AND folder = ? AND uid_validity <> ?';
    return this.statements.get<{ lost: number }>(sql, this.plan, path, uidValidity)?.lost ?? 0;
  }
}

/** Milliseconds. */
const BUSY_TIMEOUT = 5_000;

/** A separate file, or null for the archive's state database. */
interface JournalPlace {
  readonly dataDir: string;
  readonly file: string | null;
}

/**
 * Opens the journal for a restore. Leaves the other tables alone, so it does not need the archive's lock.
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
    // If a power failure loses entries, their messages are found in the folder instead.
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

/** Opens the journal read-only to look for unfinished plans. Returns undefined if it cannot be read. */
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

/** Consecutive failures after which a run gives up, with pauses of about four minutes in total. */
const MAX_FAILURES = 8;
const FIRST_PAUSE = 1_000;
const MAX_PAUSE = 60_000;

export class Line {
  #connection: RestoreConnection | undefined;
  #failures = 0;

  constructor(
    private readonly deps: Pick<RestoreOptions, 'host' | 'connect' | 'sleep' | 'signal'>,
    connection?: RestoreConnection,
  ) {
    this.#connection = connection;
  }

  /** @throws errors from `connect` */
  async open(): Promise<RestoreConnection> {
    this.#connection ??= await this.deps.connect();
    return this.#connection;
  }

  worked(): void {
    this.#failures = 0;
  }

  /**
   * Waits after a failure, longer after each consecutive one, and reconnects if the connection broke.
   *
   * @throws restore-gave-up after too many failures
   */
  async recover(error: unknown): Promise<void> {
    for (let cause = error; ; ) {
      if (!(cause instanceof MailkeepError) || !cause.retryable) throw cause;
      await this.#pause(cause);
      if (isRestoreError(cause, 'restore-throttled')) return;
      const { signal } = this.deps;
      if (signal.aborted) return;
      await this.close();
      try {
        await this.open();
        return;
      } catch (second) {
        cause = isRestoreError(second, 'restore-login-refused')
          ? restoreError('restore-connection-lost', {
              host: this.deps.host,
              reason: second.facts.text,
            })
          : second;
      }
    }
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  async #pause(cause: MailkeepError): Promise<void> {
    this.#failures += 1;
    const { host, sleep } = this.deps;
    if (this.#failures > MAX_FAILURES) {
      const { reason, text } = cause.facts;
      const facts = { host, tries: this.#failures - 1, reason: String(reason ?? text) };
      throw restoreError('restore-gave-up', facts, cause);
    }
    const delay = isRestoreError(cause, 'restore-throttled') ? cause.facts.waitMs : null;
    const pause = Math.min(MAX_PAUSE, FIRST_PAUSE * 2 ** (this.#failures - 1));
    await sleep(Math.max(delay ?? 0, pause));
  }
}
