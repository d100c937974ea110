import type Database from 'better-sqlite3';
import {
  count,
  fields,
  flag,
  list,
  nullable,
  number,
  oneOf,
  parseJson,
  type ReadValue,
  strictList,
  text,
  withDefault,
} from './stored-values.ts';

const KEPT_MS = 400 * 86_400_000;
/** Frequent webhook deliveries create many runs. */
const MAX_RUNS = 200_000;
/** Maximum number of folders whose sums are stored per run. */
const MAX_FOLDERS = 10;
const MAX_FAILURES = 5;
/** Maximum length of a name or sentence, in characters. */
const LONGEST = 300;

const OUTCOMES = ['done', 'failed', 'interrupted'] as const;

/** A folder's equation: origin total = stored + assumed + quarantined + forgotten. Held messages are not included. */
const sums = {
  originTotal: number,
  stored: number,
  assumed: number,
  quarantined: number,
  held: number,
  forgotten: number,
  complete: flag,
};
const folderSums = fields({ ...sums, mailbox: text, folder: text });
export type RunFolder = ReadValue<typeof folderSums>;

/** A failure. Never identifies a single message, because forgotten mail must leave no trace here. */
const problem = fields({
  mailbox: nullable(text),
  folder: nullable(text),
  code: text,
  /** One sentence for users; null if it would identify a message. */
  text: nullable(text),
});
export type RunProblem = ReadValue<typeof problem>;

/** A run as stored. Times are milliseconds since the epoch. */
const run = fields({
  /** `sync`, `sweep`, `hint`, `hand`, `backlog`, `verify`, `prune`, `seal`, `index`, `import`. */
  kind: text,
  /** Name in the configuration; null for several accounts or the whole archive. */
  account: nullable(text),
  startedAt: number,
  endedAt: number,
  outcome: oneOf(OUTCOMES),
  /** Number of mailboxes; `mailbox` has the address if there was only one. */
  mailboxes: count,
  mailbox: nullable(text),
  /** Messages counted once per folder, as in the result of a sync run. */
  added: count,
  ended: count,
  flagsChanged: count,
  relinked: count,
  quarantined: count,
  held: count,
  bytes: count,
  requests: count,
  /** Messages read back by a verification or removed by pruning; null for other runs. */
  messages: withDefault(nullable(count), null),
  /** Commits made by an import, to undo it. `last` is null if the import was interrupted. Null for other runs. */
  commits: withDefault(nullable(fields({ first: count, last: nullable(count) })), null),
  /** Totals for all compared folders, and the number of folders; null if no folder was compared. */
  sum: nullable(fields({ ...sums, folders: count })),
  /** Sums for individual folders, those that do not add up first; the rest are dropped. */
  folders: list(folderSums),
  /** Total number of failures; `troubles` contains the first of them. */
  failures: count,
  troubles: list(problem),
});
type ReadRun = ReadValue<typeof run>;
export type RunRecord = Omit<ReadRun, 'commits'> & Partial<Pick<ReadRun, 'commits'>>;

export type RunContext = Pick<RunRecord, 'kind' | 'account' | 'startedAt' | 'endedAt'>;

export const EMPTY_COUNTS: Omit<RunRecord, keyof RunContext> = {
  outcome: 'done',
  mailboxes: 0,
  mailbox: null,
  added: 0,
  ended: 0,
  flagsChanged: 0,
  relinked: 0,
  quarantined: 0,
  held: 0,
  bytes: 0,
  requests: 0,
  messages: null,
  sum: null,
  folders: [],
  failures: 0,
  troubles: [],
};

export interface StoredRun extends RunRecord {
  readonly id: number;
}

interface RunQuery {
  readonly limit: number;
  readonly before?: number | undefined;
  /** Selects runs that ended at this time or later. */
  readonly since?: number | undefined;
  readonly kinds?: readonly string[] | undefined;
}

/** Creates the table of runs if it is missing. Earlier versions have no such table, and ignore it. */
export function makeRunTable(database: Database.Database): void {
  database.exec(`
    CREATE TABLE IF NOT EXISTS runs (
      id INTEGER PRIMARY KEY, kind TEXT NOT NULL, ended_at INTEGER NOT NULL, run TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS runs_by_end ON runs (ended_at);
    CREATE INDEX IF NOT EXISTS runs_by_kind ON runs (kind, id)`);
}

export type RunJournal = ReturnType<typeof runJournal>;

/** @param guard converts database errors to mailkeep errors */
export function runJournal(database: Database.Database, guard: <T>(act: () => T) => T) {
  return {
    /**
     * Stores a run and returns its ID. Removes old runs, except imports, which can be undone.
     * @param replacedId ID of a run to replace
     */
    keep: (run: RunRecord, replacedId?: number): number =>
      guard(() => database.transaction(() => keep(database, run, replacedId)).immediate()),
    list: (query: RunQuery): StoredRun[] =>
      // A state that a writer of this version has not opened yet has no runs.
      guard(() => (hasTable(database, 'runs') ? readRuns(database, query) : [])),
  };
}

export function hasTable(database: Database.Database, name: string): boolean {
  const sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?";
  return database.prepare<unknown[]>(sql).get(name) !== undefined;
}

function keep(database: Database.Database, run: RunRecord, replacedId: number | undefined): number {
  const { lastInsertRowid } = database
    .prepare('REPLACE INTO runs (id, kind, ended_at, run) VALUES (?, ?, ?, ?)')
    .run(replacedId ?? null, run.kind, run.endedAt, JSON.stringify(truncateRun(run)));
  const id = Number(lastInsertRowid);
  const drop = (condition: string, value: number) =>
    database.prepare(`DELETE FROM runs WHERE ${condition} AND kind <> 'import'`).run(value);
  drop('ended_at < ?', run.endedAt - KEPT_MS);
  drop('id <= ?', id - MAX_RUNS);
  return id;
}

interface Row {
  readonly id: number;
  readonly run: string;
}

function readRuns(
  database: Database.Database,
  { limit, before = Number.MAX_SAFE_INTEGER, since = 0, kinds }: RunQuery,
): StoredRun[] {
  const kindFilter = kinds === undefined ? '' : 'AND kind IN (SELECT value FROM json_each(?))';
  const rows = database
    .prepare<unknown[], Row>(
      `SELECT id, run FROM runs WHERE id < ? AND ended_at >= ? ${kindFilter} ORDER BY id DESC LIMIT ?`,
    )
    .all(before, since, ...(kinds === undefined ? [] : [JSON.stringify(kinds)]), limit);
  return rows.flatMap(({ id, run: json }) => {
    const found = run(parseJson(json));
    return found === undefined ? [] : [{ id, ...found }];
  });
}

function truncateRun(run: RunRecord): RunRecord {
  const { folders, troubles, mailbox } = run;
  return {
    ...run,
    mailbox: truncate(mailbox),
    folders: folders
      .toSorted((a, b) => Number(isBalanced(a)) - Number(isBalanced(b)))
      .slice(0, MAX_FOLDERS)
      .map((one) => ({ ...one, mailbox: truncate(one.mailbox), folder: truncate(one.folder) })),
    troubles: troubles.slice(0, MAX_FAILURES).map((one) => ({
      ...one,
      mailbox: truncate(one.mailbox),
      folder: truncate(one.folder),
      text: truncate(one.text),
    })),
  };
}

function isBalanced({ originTotal, stored, complete }: RunFolder): boolean {
  return complete && originTotal === stored;
}

function truncate<T extends string | null>(value: T): T | string {
  return value === null || value.length <= LONGEST ? value : `${value.slice(0, LONGEST - 1)}…`;
}

const damage = { since: number, found: count, text };
/** Parses the state of one copy of the archive. Times are milliseconds since the epoch. */
export const knownCopy = fields({
  /** Last update, with the commit that it reached. `encrypted` is false for a readable directory. */
  made: nullable(fields({ at: number, commit: count, encrypted: flag })),
  /** Settings in the daemon's configuration; null if it does not include this copy. */
  plan: nullable(
    fields({
      /** Longest interval between two copies if nothing fails. */
      everyMs: number,
      /** When the copy was added to the configuration. */
      since: number,
      /** When a copy was last due but already up to date; 0 if never. */
      currentAt: number,
    }),
  ),
  /** Failures since the last update; null after a success. */
  failed: nullable(fields({ since: number, at: number, tries: count, code: text, text })),
  /** The last read-back, whether partial or complete. */
  checked: nullable(
    fields({
      at: number,
      /** Number of units checked. The unit is an object if this machine cannot open the copy. */
      checked: number,
      of: count,
      unit: oneOf(['segment', 'object']),
      found: count,
      fullAt: nullable(number),
    }),
  ),
  /** Known damage. Cleared when a full check finds none. The next copy uploads the objects in `names` again. */
  damage: nullable(fields({ ...damage, names: withDefault(list(text), []) })),
  /** Damage to objects needed to open, describe and locate the copy. Cleared when a later check finds all intact. */
  unkept: withDefault(nullable(fields(damage)), null),
});
/** A copy's stored state. Readers receive its `CopyStatus`. */
export type KnownCopy = ReadValue<typeof knownCopy>;

export const UNKNOWN_COPY: KnownCopy = {
  ...{ made: null, plan: null, failed: null },
  ...{ checked: null, damage: null, unkept: null },
};

export const REQUEST_DAYS = 400;
/** Ten years. Older samples of the archive's size are removed. */
export const DISK_DAYS = 3_653;

const DAY_MS = 86_400_000;

/** Size of the archive in bytes. */
export const diskSample = fields({
  /** Milliseconds since the epoch. */
  at: number,
  log: count,
  catalog: count,
  /** Total size of the messages' raw sources. */
  mail: count,
});

/** Requests sent through one of the limiter's gates during one UTC day. */
export const requestDay = fields({
  /** Configured maximum number of requests per minute; 0 if the server does not limit requests. */
  perMinute: number,
  /** Hour of the day (UTC), response status (0 if none) and number of requests. */
  hours: strictList(fields({ hour: count, status: count, requests: count })),
});
export type RequestCount = ReadValue<typeof requestDay>['hours'][number];

/** Returns a day such as `2026-11-22`. */
export function utcDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export function utcDayBefore(ms: number, days: number): string {
  return utcDay(ms - days * DAY_MS);
}

/**
 * Returns a key that starts with the day, so that keys sort by time.
 * @param gate host, port and the account's label
 */
export function requestKey(day: string, gate: string): string {
  return `${day} ${gate}`;
}

/** Parses a key from `requestKey`. */
export function parseRequestKey(key: string): { readonly day: string; readonly gate: string } {
  return { day: key.slice(0, 10), gate: key.slice(11) };
}
