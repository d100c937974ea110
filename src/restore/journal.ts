import type Database from 'better-sqlite3';
import type { MessageId } from '../mail/words.ts';
import { holdRestore } from './one-at-a-time.ts';
import type { Layout } from './target-folders.ts';

/** A folder of the target, as an APPEND meets it. */
export interface JournalFolder {
  readonly path: string;
  /** With another one, the server's folder has been made again and holds nothing that is journaled. */
  readonly uidValidity: string;
}

/** An APPEND in the journal. */
export interface JournalEntry {
  readonly number: number;
  readonly id: MessageId;
  /** When it was sent; milliseconds since the epoch. */
  readonly begunAt: number;
  /** Null while it is unknown whether the server took the message, or where the server gives no uids. */
  readonly uid: number | null;
  /** False from before the APPEND until its answer: after an interruption the outcome is unknown. */
  readonly isSettled: boolean;
}

/** A plan in the journal: one restore, however often it is interrupted. */
export interface JournaledPlan {
  readonly number: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Where everything goes. */
  readonly layout: Layout;
  /** The moment of `--as-of`, in milliseconds since the epoch. */
  readonly asOf: number | null;
  /** Characters that the server has refused in names of folders. */
  readonly refused: string;
}

/** How fast a server took messages. */
export interface Rate {
  readonly messagesPerSecond: number;
  readonly bytesPerSecond: number;
}

interface EntryRow {
  readonly number: number;
  readonly id: MessageId;
  readonly begun_at: number;
  readonly uid: number | null;
  readonly settled: 0 | 1;
}

interface PlanRow {
  readonly number: number;
  readonly started_at: number;
  /** The layout, whose levels alone were here once. */
  readonly levels: string;
  readonly as_of: number | null;
  readonly refused: string;
}

/**
 * The journal of restores in a database that may hold other tables. A crash of the machine may take its last entries:
 * what the server has is then recognised by its content.
 */
export class RestoreJournal {
  /** Creates the tables where they are missing, unless the database is read-only. */
  constructor(private readonly database: Database.Database) {
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

  /** Keeps other processes from the same restore until the returned function is called. @throws restore-running */
  hold(target: string, what: string): () => void {
    return holdRestore(this.database.name, target, what);
  }

  /** Returns the newest plan of a selection for a target that has not been finished. */
  unfinished(target: string, what: string): JournaledPlan | undefined {
    if (!this.#isThere()) return undefined;
    const row = this.database
      .prepare<unknown[], PlanRow>(
        `SELECT number, started_at, levels, as_of, refused FROM restores
         WHERE target = ? AND what = ? AND finished_at IS NULL ORDER BY number DESC LIMIT 1`,
      )
      .get(target, what);
    if (row === undefined) return undefined;
    const { number, started_at: startedAt, levels, as_of: asOf, refused } = row;
    const layout: Layout | readonly string[] | null = JSON.parse(levels);
    if (layout === null || !('kind' in layout)) return undefined;
    return { number, startedAt, layout, asOf, refused };
  }

  /** Records a plan. */
  begin(
    target: string,
    what: string,
    { startedAt, layout, asOf }: Pick<JournaledPlan, 'startedAt' | 'layout' | 'asOf'>,
  ): JournaledPlan {
    const { lastInsertRowid } = this.database
      .prepare<unknown[]>(
        "INSERT INTO restores (target, what, started_at, levels, as_of, refused) VALUES (?, ?, ?, ?, ?, '')",
      )
      .run(target, what, startedAt, JSON.stringify(layout), asOf);
    return { number: Number(lastInsertRowid), startedAt, layout, asOf, refused: '' };
  }

  /** Records which characters the server refuses in names. */
  refuse({ number }: JournaledPlan, characters: string): void {
    this.database
      .prepare<unknown[]>('UPDATE restores SET refused = ? WHERE number = ?')
      .run(characters, number);
  }

  /** Nothing of the plan is left to do: the same command begins another, and what this one appended is not needed. */
  finish({ number }: JournaledPlan, at: number): void {
    this.database.transaction(() => {
      this.database
        .prepare<unknown[]>('UPDATE restores SET finished_at = ? WHERE number = ?')
        .run(at, number);
      this.database.prepare<unknown[]>('DELETE FROM restored WHERE plan = ?').run(number);
    })();
  }

  /** Records how fast the server took messages. */
  measured({ number }: JournaledPlan, { messagesPerSecond, bytesPerSecond }: Rate): void {
    this.database
      .prepare<unknown[]>(
        'UPDATE restores SET messages_per_second = ?, bytes_per_second = ? WHERE number = ?',
      )
      .run(messagesPerSecond, bytesPerSecond, number);
  }

  /** Returns how fast a target took messages last; null where none was measured. */
  rateOf(target: string): Rate | null {
    if (!this.#isThere()) return null;
    const row = this.database
      .prepare<unknown[], Rate>(
        `SELECT messages_per_second AS messagesPerSecond, bytes_per_second AS bytesPerSecond FROM restores
         WHERE target = ? AND bytes_per_second IS NOT NULL ORDER BY number DESC LIMIT 1`,
      )
      .get(target);
    return row ?? null;
  }

  /** Returns what a plan has appended. */
  entriesOf({ number }: Pick<JournaledPlan, 'number'>): PlanJournal {
    return new PlanJournal(this.database, number);
  }

  close(): void {
    this.database.close();
  }

  /** A journal that is only read may have no tables. */
  #isThere(): boolean {
    const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'restores'";
    return this.database.prepare(sql).get() !== undefined;
  }
}

/** What one plan has appended to one target. The same message may be there several times: each APPEND has an entry. */
export class PlanJournal {
  readonly #begin: Database.Statement<unknown[]>;
  readonly #settle: Database.Statement<unknown[]>;
  readonly #forget: Database.Statement<unknown[]>;

  constructor(
    private readonly database: Database.Database,
    private readonly plan: number,
  ) {
    this.#begin = database.prepare(
      `INSERT INTO restored (plan, folder, uid_validity, id, begun_at, uid, settled)
       VALUES (?, ?, ?, ?, ?, NULL, 0)`,
    );
    this.#settle = database.prepare(
      'UPDATE restored SET uid = ?, settled = 1 WHERE number = ? AND plan = ?',
    );
    this.#forget = database.prepare('DELETE FROM restored WHERE number = ? AND plan = ?');
  }

  /** Has all that an action records be recorded at once. */
  together<T>(act: () => T): T {
    return this.database.transaction(act)();
  }

  /** Records that an APPEND is about to be sent, and returns the entry's number. */
  begin({ path, uidValidity }: JournalFolder, id: MessageId, at: number): number {
    return Number(this.#begin.run(this.plan, path, uidValidity, id, at).lastInsertRowid);
  }

  /** Records that the server has the message, under this uid if it gave one. */
  settle(number: number, uid: number | null): void {
    this.#settle.run(uid, number, this.plan);
  }

  /** Forgets an APPEND that the server refused, or that is known not to have reached it. */
  forget(number: number): void {
    this.#forget.run(number, this.plan);
  }

  /** Entries of a folder in the order of their APPENDs; none of an earlier UIDVALIDITY. */
  entries({ path, uidValidity }: JournalFolder): JournalEntry[] {
    return this.database
      .prepare<unknown[], EntryRow>(
        `SELECT number, id, begun_at, uid, settled FROM restored
         WHERE plan = ? AND folder = ? AND uid_validity = ? ORDER BY number`,
      )
      .all(this.plan, path, uidValidity)
      .map(({ settled, begun_at: begunAt, ...entry }) => ({
        ...entry,
        begunAt,
        isSettled: settled === 1,
      }));
  }

  /** When the last APPEND was sent whose outcome is unknown; null where there is none. */
  openSince(): number | null {
    return (
      this.database
        .prepare<unknown[], number | null>(
          'SELECT max(begun_at) FROM restored WHERE plan = ? AND settled = 0',
        )
        .pluck()
        .get(this.plan) ?? null
    );
  }

  /** How many entries a folder has of another UIDVALIDITY: it has been made again since. */
  lost({ path, uidValidity }: JournalFolder): number {
    return (
      this.database
        .prepare<unknown[], number>(
          'SELECT count(*) FROM restored WHERE plan = ? AND folder = ? AND uid_validity <> ?',
        )
        .pluck()
        .get(this.plan, path, uidValidity) ?? 0
    );
  }
}
