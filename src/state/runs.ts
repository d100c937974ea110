import type Database from 'better-sqlite3';
import {
  count,
  fields,
  flag,
  list,
  nullable,
  number,
  oneOf,
  otherwise,
  type Read,
  text,
} from './shape.ts';

/** What the daemon, or a command, did and when: the runs that the web interface shows. */

/** How long runs are kept. */
const KEPT_MS = 400 * 86_400_000;
/** Runs that are kept at most: whoever sends much mail causes many. */
const MOST_RUNS = 200_000;
/** Folders of a run whose sums are kept, and failures. */
const MOST_FOLDERS = 10;
const MOST_FAILURES = 5;
/** Characters of a name or a sentence. */
const LONGEST = 300;

const OUTCOMES = ['done', 'failed', 'interrupted'] as const;

/** What a folder's closing sentence consists of: at the origin = stored + assumed + quarantined + forgotten; the held are apart. */
export interface RunSums {
  readonly originTotal: number;
  readonly stored: number;
  readonly assumed: number;
  readonly quarantined: number;
  readonly held: number;
  readonly forgotten: number;
  readonly complete: boolean;
}

export interface RunFolder extends RunSums {
  readonly mailbox: string;
  readonly folder: string;
}

/** What went wrong. Nothing in it names a single message: what is forgotten leaves no trace here. */
export interface RunTrouble {
  readonly mailbox: string | null;
  readonly folder: string | null;
  readonly code: string;
  /** One sentence for people; null where it would name a message. */
  readonly text: string | null;
}

/** A run as it is kept. Times are milliseconds since the epoch. */
export interface RunRecord {
  /** `sync`, `sweep`, `hint`, `hand`, `backlog`, `verify`, `prune`, `seal`, `index`, `import`. */
  readonly kind: string;
  /** Its name in the configuration; null where the run is about several, or about the archive as a whole. */
  readonly account: string | null;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly outcome: (typeof OUTCOMES)[number];
  /** How many mailboxes it was about, and the address where it was one. */
  readonly mailboxes: number;
  readonly mailbox: string | null;
  /** Places, as in the result of a pass. */
  readonly added: number;
  readonly ended: number;
  readonly flagsChanged: number;
  readonly relinked: number;
  readonly quarantined: number;
  readonly held: number;
  readonly bytes: number;
  readonly requests: number;
  /** Messages that a verification read back, or that a pruning removed; null for other runs. */
  readonly messages: number | null;
  /** The commits of an import, by which it is undone; `last` is null if it was interrupted. Null for other runs. */
  readonly commits?: { readonly first: number; readonly last: number | null } | null;
  /** The sums over all folders that were compared, and how many these are; null where none was. */
  readonly sum: (RunSums & { readonly folders: number }) | null;
  /** The sums of the first folders; those that do not simply add up come first. */
  readonly folders: readonly RunFolder[];
  /** All failures; `troubles` holds the first ones. */
  readonly failures: number;
  readonly troubles: readonly RunTrouble[];
}

export interface KeptRun extends RunRecord {
  /** Runs that were kept later have higher ones. */
  readonly id: number;
}

export interface RunsAsked {
  readonly limit: number;
  /** Only runs that were kept before this one. */
  readonly before?: number | undefined;
  /** Only runs that ended at this time or later. */
  readonly since?: number | undefined;
  readonly kinds?: readonly string[] | undefined;
}

/** The runs of an archive, the newest first. */
export interface RunJournal {
  /**
   * Keeps a run, and removes those that are too old, except imports: they can be undone.
   *
   * @param instead the id of a run that this one replaces
   * @returns its id
   */
  keep(run: RunRecord, instead?: number): number;
  list(asked: RunsAsked): KeptRun[];
}

const sums = {
  originTotal: number,
  stored: number,
  assumed: number,
  quarantined: number,
  held: number,
  forgotten: number,
  complete: flag,
};

const run: Read<RunRecord> = fields({
  kind: text,
  account: nullable(text),
  startedAt: number,
  endedAt: number,
  outcome: oneOf(OUTCOMES),
  mailboxes: count,
  mailbox: nullable(text),
  added: count,
  ended: count,
  flagsChanged: count,
  relinked: count,
  quarantined: count,
  held: count,
  bytes: count,
  requests: count,
  messages: otherwise(nullable(count), null),
  commits: otherwise(nullable(fields({ first: count, last: nullable(count) })), null),
  sum: nullable(fields({ ...sums, folders: count })),
  folders: list(fields({ ...sums, mailbox: text, folder: text })),
  failures: count,
  troubles: list(
    fields({ mailbox: nullable(text), folder: nullable(text), code: text, text: nullable(text) }),
  ),
});

/** Makes the table of runs where there is none: earlier versions had none, and leave it alone. */
export function makeRunTable(database: Database.Database): void {
  database.exec(`
    CREATE TABLE IF NOT EXISTS runs (
      id INTEGER PRIMARY KEY, kind TEXT NOT NULL, ended_at INTEGER NOT NULL, run TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS runs_by_end ON runs (ended_at);
    CREATE INDEX IF NOT EXISTS runs_by_kind ON runs (kind, id)`);
}

/** @param guard gives the errors of the database our codes */
export function runJournal(database: Database.Database, guard: <T>(act: () => T) => T): RunJournal {
  return {
    keep: (kept, instead) =>
      guard(() => database.transaction(() => keep(database, kept, instead)).immediate()),
    list: (asked) => guard(() => (hasRunTable(database) ? listed(database, asked) : [])),
  };
}

/** A state that no writer of this version has opened yet has none. */
function hasRunTable(database: Database.Database): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'runs'").get() !== undefined;
}

function keep(database: Database.Database, kept: RunRecord, instead: number | undefined): number {
  const { lastInsertRowid } = database
    .prepare('REPLACE INTO runs (id, kind, ended_at, run) VALUES (?, ?, ?, ?)')
    .run(instead ?? null, kept.kind, kept.endedAt, JSON.stringify(bounded(kept)));
  const id = Number(lastInsertRowid);
  const drop = (condition: string, value: number) =>
    database.prepare(`DELETE FROM runs WHERE ${condition} AND kind <> 'import'`).run(value);
  drop('ended_at < ?', kept.endedAt - KEPT_MS);
  drop('id <= ?', id - MOST_RUNS);
  return id;
}

interface Row {
  readonly id: number;
  readonly run: string;
}

function listed(
  database: Database.Database,
  { limit, before = Number.MAX_SAFE_INTEGER, since = 0, kinds }: RunsAsked,
): KeptRun[] {
  const ofKinds = kinds === undefined ? '' : 'AND kind IN (SELECT value FROM json_each(?))';
  const rows = database
    .prepare<unknown[], Row>(
      `SELECT id, run FROM runs WHERE id < ? AND ended_at >= ? ${ofKinds} ORDER BY id DESC LIMIT ?`,
    )
    .all(before, since, ...(kinds === undefined ? [] : [JSON.stringify(kinds)]), limit);
  return rows.flatMap(({ id, run: stored }) => {
    const found = run(parsed(stored));
    return found === undefined ? [] : [{ id, ...found }];
  });
}

function parsed(stored: string): unknown {
  try {
    return JSON.parse(stored);
  } catch {
    // A damaged page; the other runs are as good as before.
    return undefined;
  }
}

/** A run within the limits of what is kept of one. */
function bounded(kept: RunRecord): RunRecord {
  const { folders, troubles, mailbox } = kept;
  return {
    ...kept,
    mailbox: cut(mailbox),
    folders: folders
      .toSorted((a, b) => Number(isPlain(a)) - Number(isPlain(b)))
      .slice(0, MOST_FOLDERS)
      .map((one) => ({ ...one, mailbox: cut(one.mailbox), folder: cut(one.folder) })),
    troubles: troubles.slice(0, MOST_FAILURES).map((one) => ({
      ...one,
      mailbox: cut(one.mailbox),
      folder: cut(one.folder),
      text: cut(one.text),
    })),
  };
}

function isPlain({ originTotal, stored, complete }: RunSums): boolean {
  return complete && originTotal === stored;
}

function cut<T extends string | null>(value: T): T | string {
  return value === null || value.length <= LONGEST ? value : `${value.slice(0, LONGEST - 1)}…`;
}
