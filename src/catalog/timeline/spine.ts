import { docidAt, isDated } from '../../mail/docid.ts';
import type { SearchNode } from '../../search/ast.ts';
import type { Connection } from '../connection.ts';
import { DOCIDS_PER_DAY } from '../place-sets.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { KeptSums } from '../stats/kept-sums.ts';
import { type CalendarPeriod, periodOf, type SpineUnit, timeOf, unitFor } from './calendar.ts';

/** What is asked of the messages that a query finds. */
export interface SpineRequest extends CountRequest {
  /** IANA name of the zone whose months, weeks and days are meant; absent: this machine's. */
  readonly timeZone?: string | undefined;
  /** What bars stand for; absent: what suits the time that they span. */
  readonly unit?: SpineUnit | undefined;
  /** Milliseconds since the epoch: where the time that the bars are to suit ends, if not with the messages. */
  readonly until?: number | undefined;
}

/** A month, week or day that has messages. Times are milliseconds since the epoch. */
export interface SpineBar {
  /** Its first day in the zone: `2026-03-01`. */
  readonly key: string;
  readonly from: number;
  readonly to: number;
  readonly messages: number;
  /** Deleted at the service; null where there was no time to count them. */
  readonly ended: number | null;
}

/** When the messages that a query finds were received, apart from those without a date. */
export interface Spine {
  readonly unit: SpineUnit;
  /** The oldest first. */
  readonly bars: readonly SpineBar[];
  readonly messages: number;
  /** False where there was no time to count all. */
  readonly complete: boolean;
  /** Where it is not complete: what was received from here on is counted; null where nothing is. */
  readonly countedFrom: number | null;
}

const SPAN = { start: 0, end: 0 };
const ENDED: SearchNode = { kind: 'state', state: 'deleted', span: SPAN };

/**
 * Counts the messages that a query finds by month, by week where they are of less than two years, by day where they are
 * of less than two months. Everything, folders and mailboxes are counted by sums that are kept; else each message.
 *
 * @param mayContinue is asked after some hundred messages; where it says no, the rest is not counted
 */
export function spine(
  connection: Connection,
  search: Pick<SearchQueries, 'foundDocids' | 'sumsFilter'>,
  request: SpineRequest,
  mayContinue: () => boolean,
): Spine {
  return connection.snapshot(
    () => keptSpine(connection, search, request) ?? countedSpine(search, request, mayContinue),
  );
}

interface Bar extends CalendarPeriod {
  messages: number;
  ended: number | null;
}

/** Undefined where sums do not answer the query. */
function keptSpine(
  connection: Connection,
  search: Pick<SearchQueries, 'sumsFilter'>,
  request: SpineRequest,
): Spine | undefined {
  const filter = search.sumsFilter(request);
  if (filter === undefined) return undefined;
  const sums = new KeptSums(connection, request.scope ?? null, filter.fits);
  const range = sums.range();
  if (range === undefined) return NOTHING;
  const low = Math.max(range.low, filter.low);
  const high = Math.min(range.high, filter.high);
  const unit = unitOf(request, low, high);
  const bars: Bar[] = [];
  let period: CalendarPeriod | undefined;
  for (const day of sums.days()) {
    const end = Math.min(high, (day + 1) * DOCIDS_PER_DAY);
    // A day may lie in two periods of another zone.
    for (let at = Math.max(low, day * DOCIDS_PER_DAY); at < end; at = period.high) {
      if (period !== undefined && at < period.high) continue;
      period = periodOf(unit, at, request.timeZone);
      const { messages, deleted } = sums.between(
        Math.max(low, period.low),
        Math.min(high, period.high),
      );
      if (messages > 0) bars.push({ ...period, messages, ended: deleted });
    }
  }
  return spineOf(unit, bars, { complete: true, last: null });
}

/** What bars stand for that hold messages from one docid up to another. */
function unitOf({ unit, until }: SpineRequest, low: number, high: number): SpineUnit {
  return unit ?? unitFor(low, until === undefined ? high : Math.max(high, docidAt(until)));
}

const NOTHING: Spine = {
  unit: 'day',
  bars: [],
  messages: 0,
  complete: true,
  countedFrom: null,
};

function countedSpine(
  search: Pick<SearchQueries, 'foundDocids'>,
  request: SpineRequest,
  mayContinue: () => boolean,
): Spine {
  const oldest = firstDated(search.foundDocids({ ...request, sort: 'oldest' }, mayContinue));
  let unit: SpineUnit = 'day';
  const bars: Bar[] = [];
  const all = new Counting(mayContinue);
  for (const docid of all.of(search, request)) {
    const last = bars.at(-1);
    if (last === undefined) unit = unitOf(request, oldest, docid + 1);
    if (last !== undefined && docid >= last.low) last.messages += 1;
    else bars.push({ ...periodOf(unit, docid, request.timeZone), messages: 1, ended: 0 });
  }
  const { node } = request;
  const deleted = { ...request, node: { kind: 'and' as const, nodes: [node, ENDED], span: SPAN } };
  const ended = new Counting(mayContinue);
  let at = 0;
  for (const docid of ended.of(search, deleted)) {
    while (at < bars.length && docid < (bars[at]?.low ?? 0)) at += 1;
    const bar = bars[at];
    if (bar !== undefined && bar.ended !== null) bar.ended += 1;
  }
  if (!ended.complete)
    for (const bar of bars) if (bar.low <= (ended.last ?? Infinity)) bar.ended = null;
  return spineOf(unit, bars.reverse(), all);
}

function firstDated(docids: Iterable<number>): number {
  for (const docid of docids) if (isDated(docid)) return docid;
  return 0;
}

/** Messages between questions for the time. */
const ASKED_AFTER = 512;

/** A walk over what a query finds, the newest first, that ends when its time is over. */
class Counting {
  complete = true;
  /** The last docid that was seen; null for none. */
  last: number | null = null;

  constructor(private readonly mayContinue: () => boolean) {}

  *of(
    search: Pick<SearchQueries, 'foundDocids'>,
    request: CountRequest,
  ): Generator<number, void, undefined> {
    const hasTime = () => {
      this.complete &&= this.mayContinue();
      return this.complete;
    };
    let seen = 0;
    for (const docid of search.foundDocids(request, hasTime)) {
      // The newest come first: what follows has no date.
      if (!isDated(docid)) return;
      yield docid;
      this.last = docid;
      seen += 1;
      if (seen % ASKED_AFTER === 0 && !hasTime()) return;
    }
  }
}

function spineOf(
  unit: SpineUnit,
  bars: readonly Bar[],
  { complete, last }: Pick<Counting, 'complete' | 'last'>,
): Spine {
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
