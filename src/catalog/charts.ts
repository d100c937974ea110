import { DOCIDS_PER_SECOND, docidAt } from '../mail/docid.ts';
import { topCorrespondents, type Years } from './breakdowns.ts';
import type { Connection, Scope } from './database.ts';
import { archiveNames } from './folders.ts';
import { DOCIDS_PER_DAY } from './list.ts';
import type { SearchNode } from './query-ast.ts';
import type { SearchQueries } from './search.ts';
import { includesScope, isOwnFolder, numberList } from './sql.ts';
import {
  addSums,
  type ChartFilter,
  chartCondition,
  countedSets,
  countUpTo,
  quotedTerm,
  ReceivedCounts,
  type Sums,
} from './sums.ts';

interface Change {
  readonly stored: number;
  /** Messages deleted at the service in this period that have not come back. */
  readonly ended: number;
}

export interface MessageChanges {
  readonly periods: readonly Change[];
  /** Index of the first complete period. Earlier ones are cut short by the limit. */
  readonly since: number;
}

/** Maximum number of rows of each kind to read, newest first. Commits are never split. */
const MAX_STORED = 100_000;
const MAX_ENDED = 25_000;

/**
 * Counts messages stored and deleted per period, by commit time.
 *
 * @param bounds milliseconds since the epoch, ascending: the start of each period, and the end of the last
 */
function changesBetween(
  connection: Connection,
  filter: ChartFilter,
  bounds: readonly number[],
): MessageChanges {
  const periods = bounds.slice(1).map(() => ({ stored: 0, ended: 0 }));
  const first = bounds[0] ?? 0;
  const last = bounds.at(-1) ?? 0;
  const times = new Map(
    connection.values<readonly [number, number]>(
      `SELECT number, time FROM commits WHERE time >= ${first} AND time < ${last}`,
    ),
  );
  if (times.size === 0) return { periods, since: 0 };
  let [low, high] = [Number.MAX_SAFE_INTEGER, 0];
  for (const number of times.keys()) {
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  const sets = countedSets(connection, filter);
  let since = 0;
  const periodAt = (commit: number): number => countUpTo(bounds, times.get(commit) ?? -1) - 1;
  /** Marks the period containing a partly read commit, and all earlier periods, as incomplete. */
  const stopAt = (commit: number): void => {
    since = Math.max(since, countUpTo(bounds, times.get(commit) ?? last));
  };

  const { scope } = connection;
  const stored =
    scope === null
      ? connection.values<Stored>(storedSql(low, high, '1'))
      : storedWithin(connection, scope, { low, high });
  let rows = 0;
  for (const [commit, set, messages] of stored) {
    rows += messages;
    if (rows > MAX_STORED) {
      stopAt(commit);
      break;
    }
    const period = periods[periodAt(commit)];
    if (period !== undefined && sets.has(set)) period.stored += messages;
  }

  rows = 0;
  let before = '';
  for (const [commit, docid, set, hasEnded] of connection.values<Ended>(
    endedSql(low, high, scope),
  )) {
    rows += 1;
    if (rows > MAX_ENDED) {
      stopAt(commit);
      break;
    }
    // A message in two folders ends in both at the same time.
    const key = `${commit} ${docid}`;
    const period = periods[periodAt(commit)];
    if (period !== undefined && hasEnded === 1 && sets.has(set) && key !== before) {
      period.ended += 1;
      before = key;
    }
  }
  return { periods, since };
}

type Stored = readonly [commit: number, set: number, messages: number];
type Ended = readonly [commit: number, docid: number, set: number, hasEnded: 0 | 1];

/** Selects the newest commits first, using only the index. */
function storedSql(low: number, high: number, among: string): string {
  return `SELECT first_commit, place_set, count(*) FROM messages INDEXED BY messages_by_commit
    WHERE first_commit >= ${low} AND first_commit <= ${high} AND ${among}
    GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC`;
}

/**
 * Counts stored messages in a scope's mailboxes. A message shared with other mailboxes may have arrived in these later.
 * Only visible rows count towards the limit.
 */
function storedWithin(
  connection: Connection,
  scope: Scope,
  { low, high }: { readonly low: number; readonly high: number },
): Stored[] {
  const alone: number[] = [];
  const shared: number[] = [];
  const sets = connection.text<{ id: number; mailboxes: string }>(
    `SELECT id, mailboxes FROM place_sets WHERE ${includesScope('mailboxes', scope)}`,
    [],
  );
  for (const { id, mailboxes } of sets) {
    const among = numberList(mailboxes, connection.file);
    (among.every((one) => scope.mailboxes.includes(one)) ? alone : shared).push(id);
  }
  const rows = [
    ...connection.values<Stored>(storedSql(low, high, `place_set IN (${alone.join(', ')})`)),
    ...connection.values<Stored>(sharedSql(shared, scope)),
  ];
  return rows
    .filter(([commit]) => commit >= low && commit <= high)
    .sort((a, b) => b[0] - a[0] || b[1] - a[1]);
}

/** Groups messages by the commit that first placed them in the scope. */
function sharedSql(sets: readonly number[], scope: Scope): string {
  const first = `SELECT min(q.first_commit) FROM places q
    WHERE q.docid = m.docid AND ${isOwnFolder('q.folder_id', scope)}`;
  return `SELECT (${first}), m.place_set, count(*) FROM messages m INDEXED BY messages_by_commit
    WHERE m.first_commit > 0 AND m.place_set IN (${sets.join(', ')}) GROUP BY 1, 2`;
}

/** Selects ended places. A message ends with its last place if none remains open. */
function endedSql(low: number, high: number, scope: Scope | null): string {
  const hasPlace = (condition: string) =>
    `EXISTS (SELECT 1 FROM places q
      WHERE q.docid = p.docid AND ${condition} AND ${isOwnFolder('q.folder_id', scope)})`;
  const isOpen = scope === null ? 'm.open_places > 0' : hasPlace('q.to_commit IS NULL');
  const isLast = `NOT ${hasPlace('q.to_commit > p.to_commit')} AND ${isOwnFolder('p.folder_id', scope)}`;
  return `SELECT p.to_commit, p.docid, m.place_set, NOT ${isOpen} AND ${isLast}
    FROM places p INDEXED BY places_by_end CROSS JOIN messages m ON m.docid = p.docid
    WHERE p.to_commit IS NOT NULL AND p.to_commit >= ${low} AND p.to_commit <= ${high}
    ORDER BY p.to_commit DESC, p.docid DESC`;
}

/** Time zone offsets are multiples of a quarter of an hour. */
const QUARTER_MS = 900_000;
const DOCIDS_PER_QUARTER = (DOCIDS_PER_SECOND * QUARTER_MS) / 1000;

/** Maximum number of messages to read. Reading this many takes up to 50 ms. */
const MOST = 50_000;

export interface QuarterCounts {
  /** Keyed by the start of the quarter hour, in milliseconds since the epoch. */
  readonly counts: ReadonlyMap<number, number>;
  /** Received time of the oldest message read; null if all were read. */
  readonly since: number | null;
}

/**
 * Counts received messages by quarter hour, limited to the newest 50,000.
 *
 * @param low first docid of a half-open range
 */
function quartersBetween(
  connection: Connection,
  filter: ChartFilter,
  low: number,
  high: number,
): QuarterCounts {
  const sets = countedSets(connection, filter);
  // Negative for messages that do not count, because the limit applies to rows read.
  const docid = `iif(${chartCondition(connection, filter, sets)}, docid, -docid)`;
  const docids = connection.column<number>(
    `SELECT ${docid} FROM messages WHERE docid >= ${low} AND docid < ${high}
     ORDER BY messages.docid DESC LIMIT ${MOST}`,
    [],
  );
  const counts = new Map<number, number>();
  for (const one of docids) {
    if (one < 0) continue;
    const quarter = Math.floor(one / DOCIDS_PER_QUARTER) * QUARTER_MS;
    counts.set(quarter, (counts.get(quarter) ?? 0) + 1);
  }
  const oldest = docids.length < MOST ? undefined : docids.at(-1);
  return {
    counts,
    since: oldest === undefined ? null : Math.floor(Math.abs(oldest) / DOCIDS_PER_SECOND) * 1000,
  };
}

export interface FolderBytes extends Sums {
  readonly address: string;
  readonly path: string;
  /** Query that matches exactly these messages; null if the query language cannot express the folder. */
  readonly query: string | null;
}

/**
 * Returns message and byte counts per folder from the stored totals, largest first. A message in two folders is counted
 * in both. Undefined if a message left the scope but exists elsewhere: the totals do not record its former folder.
 */
function folderBytes(connection: Connection, received: ReceivedCounts): FolderBytes[] | undefined {
  const names = archiveNames(connection, null).folders;
  if (connection.scope !== null && hasUnplaced(received, new Set(names.keys()))) return undefined;
  const folders = new Map<string, FolderBytes>();
  const addresses = new Map<number, string>();
  for (const { mailboxId, address } of names.values()) addresses.set(mailboxId, address);
  const single =
    new Set([...addresses.values()].map((address) => address.toLowerCase())).size === 1;
  for (const { address, path } of names.values()) {
    if (path.toLowerCase() === 'anywhere') continue;
    const terms = [...(single ? [] : [quotedTerm('mailbox', address)]), quotedTerm('in', path)];
    const query = terms.includes(null) ? null : terms.join(' ');
    folders.set(keyOf(address, path), { address, path, query, messages: 0, bytes: 0, deleted: 0 });
  }
  // Matches the exact path and all past mailboxes, like `in:` and `mailbox:`.
  for (const [{ current, last, mailboxes }, sums] of received.bySet()) {
    const paths = new Set([...current, ...last].flatMap((id) => names.get(id)?.path ?? []));
    const boxes = new Set(mailboxes.flatMap((id) => addresses.get(id) ?? []));
    const keys = [...paths].flatMap((path) => [...boxes].map((address) => keyOf(address, path)));
    for (const key of new Set(keys)) {
      const entry = folders.get(key);
      if (entry !== undefined) folders.set(key, { ...entry, ...addSums(entry, sums) });
    }
  }
  return [...folders.values()]
    .filter(({ messages }) => messages > 0)
    .sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1));
}

function keyOf(address: string, path: string): string {
  return `${address.toLowerCase()}\0${path}`;
}

/** Reports whether any message without a current place in these folders has an unknown last place. */
function hasUnplaced(received: ReceivedCounts, folders: ReadonlySet<number>): boolean {
  const unplaced = received.all(
    ({ deleted, current, last }) =>
      deleted && (current.length > 0 || !last.some((id) => folders.has(id))),
  );
  return unplaced.messages > 0;
}

export interface TypeBytes {
  readonly type: string;
  readonly contents: number;
  readonly bytes: number;
}

export function chartQueries(connection: Connection, search: SearchQueries) {
  return {
    /**
     * Returns a filter if the query concerns only mailboxes and accounts, otherwise undefined.
     *
     * @param accounts see `CountRequest.accounts`
     */
    filterOf(node: SearchNode, accounts: ReadonlyMap<string, string>): ChartFilter | undefined {
      const fits = search.prepare({ node, accounts }).mailboxTest();
      return fits && { fits: node.kind === 'all' ? null : fits };
    },
    received: (filter: ChartFilter, bounds: readonly number[]) =>
      new ReceivedCounts(connection, filter, bounds),
    changes: (filter: ChartFilter, bounds: readonly number[]): MessageChanges =>
      changesBetween(connection, filter, bounds),
    quarters: (filter: ChartFilter, low: number, high: number) =>
      quartersBetween(connection, filter, low, high),
    correspondents: (filter: ChartFilter, years: Years | null, limit: number) =>
      topCorrespondents(connection, filter, years, limit),
    folders: (received: ReceivedCounts) => folderBytes(connection, received),
    /**
     * Returns the attachment types. Mailboxes share attachments, so totals are stored only for the whole archive; in a
     * scope, attachments are counted. Returns undefined if there are too many.
     */
    types: (filter: ChartFilter): TypeBytes[] | undefined => typesOf(connection, filter),
    /** Returns the first docid of the UTC day on which the oldest message was received. */
    oldest(filter: ChartFilter) {
      const counts = chartCondition(connection, filter, countedSets(connection, filter));
      const first = docidAt(null) / DOCIDS_PER_DAY;
      const sql = `SELECT min(day) FROM received_days WHERE day >= ${first} AND ${counts}`;
      const day = connection.first<number | null>(sql, []) ?? undefined;
      return day === undefined ? undefined : day * DOCIDS_PER_DAY;
    },
    /** In milliseconds since the epoch. */
    firstCommitAt: () =>
      connection.first<number>('SELECT time FROM commits ORDER BY number LIMIT 1', []),
  };
}

const MAX_ATTACHMENTS = 100_000;

function typesOf(connection: Connection, filter: ChartFilter): TypeBytes[] | undefined {
  if (connection.scope === null && filter.fits === null)
    return [
      ...connection.text<TypeBytes>(
        'SELECT type, contents, bytes FROM attachment_types ORDER BY bytes DESC, type',
        [],
      ),
    ];
  const rows = `SELECT count(*) FROM (SELECT 1 FROM attachments LIMIT ${MAX_ATTACHMENTS + 1})`;
  if ((connection.first<number>(rows, []) ?? 0) > MAX_ATTACHMENTS) return undefined;
  const counts = chartCondition(connection, filter, countedSets(connection, filter));
  return [
    ...connection.text<TypeBytes>(
      // The same attachment has several sizes only if a row is damaged. The stored totals use one of them.
      `SELECT type, count(*) AS contents, sum(size) AS bytes FROM (
         SELECT a.type, max(a.size) AS size FROM attachments a
         CROSS JOIN messages m ON m.docid = a.docid
         WHERE ${counts} GROUP BY a.type, a.hash)
       GROUP BY type ORDER BY bytes DESC, type`,
      [],
    ),
  ];
}
