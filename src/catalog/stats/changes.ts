import type { Connection } from '../connection.ts';
import { numberList } from '../number-list.ts';
import { foldersIn, placeSetsIn, type Scope } from '../scope.ts';
import { type ChartFilter, countedSets } from './chart-filter.ts';

/** What changed in one period. */
export interface Change {
  /** Messages that the archive stored for the first time. */
  readonly stored: number;
  /** Messages that are deleted, and were so from then on. */
  readonly ended: number;
}

export interface Changes {
  readonly periods: readonly Change[];
  /** Periods before this one were not counted: there is more than one chart reads. 0 where all were. */
  readonly since: number;
}

/** Rows that are read of each kind, the newest first; those of a commit are read together. */
const MOST_STORED = 100_000;
const MOST_ENDED = 25_000;

/**
 * Returns what was stored and what ended in consecutive periods, by the times of their commits.
 *
 * @param bounds milliseconds since the epoch, ascending: the beginning of each period, and the end of the last
 */
export function changesBetween(
  connection: Connection,
  filter: ChartFilter,
  bounds: readonly number[],
): Changes {
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
  const periodAt = (commit: number): number => periodOf(bounds, times.get(commit) ?? -1);
  /** Notes a commit that was not read to its end, nor were those before it. */
  const stopAt = (commit: number): void => {
    since = Math.max(since, periodOf(bounds, times.get(commit) ?? last) + 1);
  };

  const stored =
    filter.scope === null
      ? connection.values<Stored>(storedSql(low, high, '1'))
      : storedWithin(connection, filter.scope, { low, high });
  let read = 0;
  for (const [commit, set, messages] of stored) {
    read += messages;
    if (read > MOST_STORED) {
      stopAt(commit);
      break;
    }
    const period = periods[periodAt(commit)];
    if (period !== undefined && sets.has(set)) period.stored += messages;
  }

  read = 0;
  let before = '';
  for (const [commit, docid, set, hasEnded] of connection.values<Ended>(
    endedSql(low, high, filter.scope),
  )) {
    read += 1;
    if (read > MOST_ENDED) {
      stopAt(commit);
      break;
    }
    // A message in two folders ends in both at once.
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

/** The newest commit first, from the index alone. */
function storedSql(low: number, high: number, among: string): string {
  return `SELECT first_commit, place_set, count(*) FROM messages INDEXED BY messages_by_commit
    WHERE first_commit >= ${low} AND first_commit <= ${high} AND ${among}
    GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC`;
}

/**
 * The same for some mailboxes, as if there were no others: what is in others as well may have come there first. Rows of
 * others are not counted among those that one chart reads.
 */
function storedWithin(
  connection: Connection,
  scope: Scope,
  { low, high }: { readonly low: number; readonly high: number },
): Stored[] {
  const alone: number[] = [];
  const shared: number[] = [];
  const sets = connection.text<{ id: number; mailboxes: string }>(
    `SELECT id, mailboxes FROM place_sets WHERE id IN ${placeSetsIn(scope)}`,
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

/** By the first commit that brought the message to a place in the scope. */
function sharedSql(sets: readonly number[], scope: Scope): string {
  const first = `SELECT min(q.first_commit) FROM places q
    WHERE q.docid = m.docid AND q.folder_id IN ${foldersIn(scope)}`;
  return `SELECT (${first}), m.place_set, count(*) FROM messages m INDEXED BY messages_by_commit
    WHERE m.first_commit > 0 AND m.place_set IN (${sets.join(', ')}) GROUP BY 1, 2`;
}

/** The same of places that ended. A message ended with the last of its places, if none is open. */
function endedSql(low: number, high: number, scope: Scope | null): string {
  const ours = scope === null ? '' : ` AND q.folder_id IN ${foldersIn(scope)}`;
  const isOpen =
    scope === null ? 'm.open_places > 0' : `EXISTS (${placeOf('q.to_commit IS NULL')}${ours})`;
  const later = `EXISTS (${placeOf('q.to_commit > p.to_commit')}${ours})`;
  const within = scope === null ? '' : ` AND p.folder_id IN ${foldersIn(scope)}`;
  return `SELECT p.to_commit, p.docid, m.place_set, NOT ${isOpen} AND NOT ${later}${within}
    FROM places p INDEXED BY places_by_end CROSS JOIN messages m ON m.docid = p.docid
    WHERE p.to_commit IS NOT NULL AND p.to_commit >= ${low} AND p.to_commit <= ${high}
    ORDER BY p.to_commit DESC, p.docid DESC`;
}

function placeOf(condition: string): string {
  return `SELECT 1 FROM places q WHERE q.docid = p.docid AND ${condition}`;
}

function periodOf(bounds: readonly number[], time: number): number {
  let [from, to] = [0, bounds.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((bounds[middle] ?? 0) <= time) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}
