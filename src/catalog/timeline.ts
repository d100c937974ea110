import { DOCIDS_PER_SECOND, docidAt, hasDate } from '../mail/docid.ts';
import type { Connection } from './database.ts';
import { archiveNames, type FolderName } from './folders.ts';
import { DOCIDS_PER_DAY } from './list.ts';
import type { SearchNode } from './query-ast.ts';
import { localMoment, wallTime } from './query-dates.ts';
import type { View } from './resolve-query.ts';
import type { CountRequest, PreparedQuery, SearchQueries } from './search.ts';
import { commitAt, isOwnFolder } from './sql.ts';
import { EVERYWHERE, listReceivedDays, ReceivedCounts } from './sums.ts';

export type TimelineUnit = 'month' | 'week' | 'day';

/** A month, week or day in a time zone. Weeks start on Mondays. */
type CalendarPeriod = ReturnType<typeof enclosingPeriod>;

const DAY = 86_400_000;
/** Longest ranges shown as daily and as weekly bars. */
const DAYS_UP_TO = 62 * DAY;
const WEEKS_UP_TO = 731 * DAY;

export function timelineUnit(low: number, high: number): TimelineUnit {
  const length = timeOf(high) - timeOf(low);
  if (length <= DAYS_UP_TO) return 'day';
  return length <= WEEKS_UP_TO ? 'week' : 'month';
}

/** In milliseconds since the epoch. */
function timeOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/**
 * Returns the period that contains a docid.
 *
 * @param timeZone IANA name; defaults to this machine's
 */
export function enclosingPeriod(
  unit: TimelineUnit | 'year',
  docid: number,
  timeZone: string | undefined,
) {
  const { year, month, day } = wallTime(timeOf(docid), timeZone);
  const weekday = (new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7;
  const begin = (count: number) =>
    ({
      year: { year: year + count, month: 1, day: 1 },
      month: { year, month: month + count, day: 1 },
      week: { year, month, day: day - weekday + count * 7 },
      day: { year, month, day: day + count },
    })[unit];
  const docidOf = (count: number) => docidAt(localMoment(begin(count), timeZone));
  // If the clock is set back at midnight, the last hour of a day comes after the start of the next.
  const later = docid >= docidOf(1) ? 1 : 0;
  const { year: y, month: m, day: d } = begin(later);
  return {
    /** Its first day: `2026-03-01`. */
    key: new Date(Date.UTC(y, m - 1, d)).toISOString().slice(0, 10),
    /** Docids of its messages, half-open. */
    low: docidOf(later),
    high: docidOf(later + 1),
  };
}

export interface TimelineRequest extends CountRequest {
  /** IANA name; defaults to this machine's zone. */
  readonly timeZone?: string | undefined;
  /** By default, chosen from the time range. */
  readonly unit?: TimelineUnit | undefined;
  /** End of the time range used to choose the unit, in milliseconds since the epoch; default: the last message. */
  readonly until?: number | undefined;
}

/** Times are milliseconds since the epoch. */
export interface TimelineBar {
  /** Its first day in the zone: `2026-03-01`. */
  readonly key: string;
  readonly from: number;
  readonly to: number;
  readonly messages: number;
  /** Messages deleted at the service; null if time ran out. */
  readonly ended: number | null;
}

/** Received times of a query's matches. Undated messages are omitted. */
export interface Timeline {
  readonly unit: TimelineUnit;
  /** Oldest first. */
  readonly bars: readonly TimelineBar[];
  readonly messages: number;
  /** False if time ran out. */
  readonly complete: boolean;
  /** Start of the counted part if incomplete; null if nothing was counted. */
  readonly countedFrom: number | null;
}

const SPAN = { start: 0, end: 0 };
const ENDED: SearchNode = { kind: 'state', state: 'deleted', span: SPAN };

/**
 * Counts a query's matches by month, by week if they span less than two years, or by day if less than two months. Uses
 * stored totals if the query selects everything, or entire folders or mailboxes. Otherwise, counts each message.
 *
 * @param mayContinue called every few hundred messages; counting stops if it returns false
 */
export function countTimeline(
  connection: Connection,
  search: SearchQueries,
  request: TimelineRequest,
  mayContinue: () => boolean,
): Timeline {
  return connection.snapshot(
    () =>
      storedTimeline(connection, search, request) ?? countedTimeline(search, request, mayContinue),
  );
}

interface Bar extends CalendarPeriod {
  messages: number;
  ended: number | null;
}

/** Returns the timeline from stored totals; undefined if they cannot answer the query. */
function storedTimeline(
  connection: Connection,
  search: SearchQueries,
  request: TimelineRequest,
): Timeline | undefined {
  const filter = search.prepare(request).sumsFilter();
  if (filter === undefined) return undefined;
  const days = listReceivedDays(connection, EVERYWHERE, filter.fits);
  const [first, last] = [days[0], days.at(-1)];
  if (first === undefined || last === undefined) return NOTHING;
  const low = Math.max(first * DOCIDS_PER_DAY, filter.low);
  const high = Math.min((last + 1) * DOCIDS_PER_DAY, filter.high);
  const unit = unitOf(request, low, high);
  const periods: CalendarPeriod[] = [];
  for (const day of days) {
    const end = Math.min(high, (day + 1) * DOCIDS_PER_DAY);
    // A UTC day can overlap two periods in another zone.
    let at = Math.max(low, day * DOCIDS_PER_DAY, periods.at(-1)?.high ?? 0);
    while (at < end) {
      const period = enclosingPeriod(unit, at, request.timeZone);
      periods.push(period);
      at = period.high;
    }
  }
  const within = (period: CalendarPeriod) =>
    [Math.max(low, period.low), Math.min(high, period.high)] as const;
  const bounds = [...new Set(periods.flatMap(within))];
  const positions = new Map(bounds.map((bound, at) => [bound, at]));
  const sums = new ReceivedCounts(connection, EVERYWHERE, bounds).of(filter.fits);
  const bars = periods.flatMap((period): Bar[] => {
    const { messages = 0, deleted = 0 } = sums[positions.get(within(period)[0]) ?? -1] ?? {};
    return messages > 0 ? [{ ...period, messages, ended: deleted }] : [];
  });
  return buildTimeline(unit, bars, { complete: true, last: null });
}

function unitOf({ unit, until }: TimelineRequest, low: number, high: number): TimelineUnit {
  return unit ?? timelineUnit(low, until === undefined ? high : Math.max(high, docidAt(until)));
}

const NOTHING: Timeline = {
  unit: 'day',
  bars: [],
  messages: 0,
  complete: true,
  countedFrom: null,
};

function countedTimeline(
  search: SearchQueries,
  request: TimelineRequest,
  mayContinue: () => boolean,
): Timeline {
  const oldest = firstDated(search.prepare(request).docids({ sort: 'oldest' }, mayContinue));
  let unit: TimelineUnit = 'day';
  const bars: Bar[] = [];
  const all = new Counting(mayContinue);
  for (const docid of all.of(search.prepare(request))) {
    const last = bars.at(-1);
    if (last === undefined) unit = unitOf(request, oldest, docid + 1);
    if (last !== undefined && docid >= last.low) last.messages += 1;
    else bars.push({ ...enclosingPeriod(unit, docid, request.timeZone), messages: 1, ended: 0 });
  }
  const { node } = request;
  const deleted = { ...request, node: { kind: 'and' as const, nodes: [node, ENDED], span: SPAN } };
  const ended = new Counting(mayContinue);
  let at = 0;
  for (const docid of ended.of(search.prepare(deleted))) {
    while (at < bars.length && docid < (bars[at]?.low ?? 0)) at += 1;
    const bar = bars[at];
    if (bar !== undefined && bar.ended !== null) bar.ended += 1;
  }
  if (!ended.complete)
    for (const bar of bars) if (bar.low <= (ended.last ?? Infinity)) bar.ended = null;
  return buildTimeline(unit, bars.reverse(), all);
}

function firstDated(docids: Iterable<number>): number {
  for (const docid of docids) if (hasDate(docid)) return docid;
  return 0;
}

const ASKED_AFTER = 512;

/** Walks a query's matches, newest first, until time runs out. */
class Counting {
  complete = true;
  last: number | null = null;

  constructor(private readonly mayContinue: () => boolean) {}

  *of(query: PreparedQuery): Generator<number, void, undefined> {
    const hasTime = () => {
      this.complete &&= this.mayContinue();
      return this.complete;
    };
    let steps = 0;
    for (const docid of query.docids({}, hasTime)) {
      // The rest have no date, because the newest come first.
      if (!hasDate(docid)) return;
      yield docid;
      this.last = docid;
      steps += 1;
      if (steps % ASKED_AFTER === 0 && !hasTime()) return;
    }
  }
}

function buildTimeline(
  unit: TimelineUnit,
  bars: readonly Bar[],
  { complete, last }: Pick<Counting, 'complete' | 'last'>,
): Timeline {
  return {
    unit,
    bars: bars.map(({ key, low, high, messages, ended }) => ({
      key,
      from: timeOf(low),
      to: timeOf(high),
      messages,
      ended,
    })),
    messages: bars.reduce((sum, { messages }) => sum + messages, 0),
    complete,
    countedFrom: complete || last === null ? null : timeOf(last),
  };
}

/** A change to a message after a past time. */
export type LaterChange =
  /** Milliseconds since the epoch. */
  | { readonly kind: 'deleted'; readonly at: number }
  | { readonly kind: 'moved'; readonly mailbox: string; readonly folder: string };

interface Interval {
  readonly docid: number;
  readonly folder: number;
}

interface LastPlace extends Interval {
  readonly ended: number | null;
}

/**
 * Returns later changes to messages in a past view. Omits unchanged messages. A message was moved if it is in none of
 * its former folders. Folders are given their current names.
 */
export function changesSince(
  connection: Connection,
  docids: readonly number[],
  { asOf, scope }: View,
): ReadonlyMap<number, LaterChange> {
  const found = new Map<number, LaterChange>();
  if (asOf === null || docids.length === 0) return found;
  const list = JSON.stringify(docids);
  const condition = `docid IN (SELECT value FROM json_each(?))
    AND ${isOwnFolder('folder_id', scope)}`;
  const then = Map.groupBy(
    connection.text<Interval>(
      `SELECT docid, folder_id AS folder FROM places
       WHERE ${condition} AND from_commit <= ${asOf} AND (to_commit IS NULL OR to_commit > ${asOf})
       UNION SELECT docid, folder_id FROM spans
       WHERE ${condition} AND from_commit <= ${asOf} AND to_commit > ${asOf}`,
      [list, list],
    ),
    ({ docid }) => docid,
  );
  const now = Map.groupBy(
    connection.text<LastPlace>(
      `SELECT p.docid, p.folder_id AS folder, c.time AS ended
       FROM (SELECT * FROM places WHERE ${condition}) p LEFT JOIN commits c ON c.number = p.to_commit
       ORDER BY p.docid, p.id`,
      [list],
    ),
    ({ docid }) => docid,
  );
  const names = archiveNames(connection, null).folders;
  for (const [docid, intervals] of then) {
    const change = laterChange(intervals, now.get(docid) ?? [], names);
    if (change !== undefined) found.set(docid, change);
  }
  return found;
}

function laterChange(
  past: readonly Interval[],
  places: readonly LastPlace[],
  names: ReadonlyMap<number, FolderName>,
): LaterChange | undefined {
  const current = places.filter(({ ended }) => ended === null);
  const [first] = current;
  if (first === undefined) {
    const endTimes = places.flatMap(({ ended }) => ended ?? []);
    return endTimes.length === 0 ? undefined : { kind: 'deleted', at: Math.max(...endTimes) };
  }
  const isSame = current.some(({ folder }) => past.some((before) => before.folder === folder));
  const name = names.get(first.folder);
  if (isSame || name === undefined) return undefined;
  return { kind: 'moved', mailbox: name.address, folder: name.path };
}

/** A time range, in milliseconds since the epoch, divided into equal columns. */
export interface ChangesRequest {
  readonly from: number;
  readonly to: number;
  readonly columns: number;
}

/** A moved message is counted in both. */
export interface ChangeSums {
  readonly came: number;
  readonly ended: number;
}

export interface ChangedCommit extends ChangeSums {
  readonly commit: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

export function changeQueries(connection: Connection) {
  const isOurs = isOwnFolder('c.folder_id', connection.scope);
  const find = (condition: string, order: string, commit: number) => {
    const [row] = connection.text<ChangedCommit>(
      `SELECT c.commit_number AS "commit", t.time, sum(c.came) AS came, sum(c.ended) AS ended
       FROM commit_changes c CROSS JOIN commits t ON t.number = c.commit_number
       WHERE c.commit_number ${condition} ? AND ${isOurs}
       GROUP BY c.commit_number ORDER BY c.commit_number ${order} LIMIT 1`,
      [BigInt(commit)],
    );
    return row;
  };
  const between = (after: number, upTo: number): ChangeSums => {
    const [sums] = connection.text<ChangeSums>(
      `SELECT coalesce(sum(c.came), 0) AS came, coalesce(sum(c.ended), 0) AS ended
       FROM commit_changes c WHERE c.commit_number > ? AND c.commit_number <= ? AND ${isOurs}`,
      [BigInt(after), BigInt(upTo)],
    );
    return sums ?? { came: 0, ended: 0 };
  };
  return {
    /** Returns the times of the first and last commits. */
    span() {
      const times = connection.column<number>(
        `SELECT time FROM (SELECT * FROM commits ORDER BY number LIMIT 1)
         UNION ALL SELECT time FROM (SELECT * FROM commits ORDER BY number DESC LIMIT 1)`,
        [],
      );
      const [first, last] = times;
      return first === undefined || last === undefined ? undefined : { first, last };
    },
    /**
     * Counts the places that appeared and ended per column, oldest first. Calls `mayContinue` after each column. If
     * time runs out, the oldest columns are empty.
     */
    columns: ({ from, to, columns }: ChangesRequest, mayContinue: () => boolean) =>
      connection.snapshot(() => {
        const found: ChangeSums[] = [];
        const begin = (column: number) => from + ((to - from + 1) * column) / columns;
        let upTo = commitAt(connection, to);
        // Newest first, so that the oldest columns are missing if time runs out.
        for (let column = columns - 1; column >= 0; column -= 1) {
          const after = commitAt(connection, Math.ceil(begin(column)) - 1);
          found.push(after < upTo ? between(after, upTo) : { came: 0, ended: 0 });
          upTo = Math.min(upTo, after);
          if (column > 0 && !mayContinue()) break;
        }
        const complete = found.length === columns;
        while (found.length < columns) found.push({ came: 0, ended: 0 });
        return { columns: found.reverse(), complete };
      }),
    /** Return the first commit with changes after a time, or the last one before it. */
    next: (time: number) => find('>', 'ASC', commitAt(connection, time)),
    previous: (time: number) => find('<=', 'DESC', commitAt(connection, time - 1)),
    /** Counts the places that appeared and ended after a time. */
    since: (time: number) => between(commitAt(connection, time), Number.MAX_SAFE_INTEGER),
  };
}
