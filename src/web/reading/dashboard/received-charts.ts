import type { ChartFilter } from '../../../catalog/stats/chart-filter.ts';
import type { ChartQueries } from '../../../catalog/stats/charts.ts';
import type { Received } from '../../../catalog/stats/received.ts';
import type { Gigabytes, Kept, Series, Storage, StoredBytes } from './dashboard-data.ts';
import { dateTerm, docidBounds, type Periods } from './periods.ts';

/** Mailboxes that have a colour of their own; the others are shown together. */
const MOST_SERIES = 4;
/** Rows of a list of bars; the others are shown together. */
const MOST_ROWS = 7;

/** A mailbox that a dashboard shows, by its address: several hosts may have one of the same. */
export interface ShownMailbox {
  readonly address: string;
  readonly ids: ReadonlySet<number>;
  /** What finds it. */
  readonly term: string;
}

/** Writes what narrows a query. */
export type Narrow = (...terms: readonly string[]) => string;

export interface OfReceived {
  readonly kept: Kept;
  readonly gigabytes: Omit<Gigabytes, 'disk' | 'diskNow'>;
  readonly storage: Omit<Storage, 'types'>;
}

/** Returns what follows from the sums of messages by day and place. */
export function ofReceived(
  charts: ChartQueries,
  filter: ChartFilter,
  periods: Periods,
  mailboxes: readonly ShownMailbox[],
  narrow: Narrow,
): OfReceived {
  const received = charts.received(filter, docidBounds(periods));
  const totals = received.all(() => true);
  const sorted = mailboxes
    .map((mailbox) => ({ mailbox, sums: received.all(inBox(mailbox.ids)) }))
    .filter(({ sums }) => sums.messages > 0)
    .sort((a, b) => b.sums.messages - a.sums.messages);
  const hasOthers = sorted.length > MOST_SERIES;
  const shown = sorted.slice(0, MOST_SERIES).map(({ mailbox }) => mailbox);
  const series = seriesOf(received, shown, hasOthers, narrow);
  const counted = series.reduce((sum, one) => sum + one.count, 0);
  const sums = received.of(() => true);
  let bytes = received.before(() => true).bytes;
  const mail = sums.map((one) => {
    bytes += one.bytes;
    return bytes;
  });
  const seriesAt = (address: string): number => {
    const at = shown.findIndex((one) => one.address.toLowerCase() === address.toLowerCase());
    return at < 0 ? MOST_SERIES : at;
  };
  return {
    kept: {
      unit: periods.unit,
      periods: periods.list.map((period) => ({ ...period, term: dateTerm(period) })),
      mailboxes: series,
      ended: oneSeries(received, 'deleted', ({ deleted }) => deleted, narrow('is:deleted')),
      total: oneSeries(received, 'all', () => true, narrow()),
      shared: Math.max(0, counted - (totals.messages - totals.deleted)),
    },
    gigabytes: { periods: periods.list, mail, mailNow: totals.bytes },
    storage: {
      mailboxes: gathered(
        sorted
          .toSorted((a, b) => b.sums.bytes - a.sums.bytes)
          .map(({ mailbox, sums: own }) => ({
            name: mailbox.address,
            series: seriesAt(mailbox.address),
            bytes: own.bytes,
            messages: own.messages,
            query: narrow(mailbox.term),
          })),
      ),
      folders: gathered(
        (charts.folders(filter, received) ?? []).map((folder) => ({
          name:
            mailboxes.length > 1 ? `${shortName(folder.address)} / ${folder.path}` : folder.path,
          series: seriesAt(folder.address),
          bytes: folder.bytes,
          messages: folder.messages,
          query: folder.query === null ? null : narrow(folder.query),
        })),
      ),
    },
  };
}

function inBox(ids: ReadonlySet<number>) {
  return ({ mailboxes }: { readonly mailboxes: readonly number[] }): boolean =>
    mailboxes.some((id) => ids.has(id));
}

type Fits = Parameters<Received['all']>[0];

function seriesOf(
  received: Received,
  shown: readonly ShownMailbox[],
  hasOthers: boolean,
  narrow: Narrow,
): Series[] {
  const series = shown.map(({ address, ids, term }) =>
    oneSeries(
      received,
      address,
      (set) => !set.deleted && inBox(ids)(set),
      narrow(term, '-is:deleted'),
    ),
  );
  if (!hasOthers) return series;
  const known = new Set(shown.flatMap(({ ids }) => [...ids]));
  const none = shown.map(({ term }) => `-${term}`);
  const others = oneSeries(
    received,
    'other mailboxes',
    (set) => !set.deleted && !inBox(known)(set),
    narrow(...none, '-is:deleted'),
  );
  return [...series, others];
}

function oneSeries(received: Received, name: string, fits: Fits, query: string): Series {
  return {
    name,
    query,
    count: received.all(fits).messages,
    before: received.before(fits).messages,
    counts: received.of(fits).map(({ messages }) => messages),
  };
}

/** The first rows, and the rest in one. */
export function gathered(rows: readonly StoredBytes[]): StoredBytes[] {
  if (rows.length <= MOST_ROWS) return [...rows];
  const rest = rows.slice(MOST_ROWS - 1);
  const bytes = rest.reduce((sum, row) => sum + row.bytes, 0);
  const others = {
    name: `${rest.length} others`,
    series: null,
    bytes,
    messages: null,
    query: null,
  };
  return [...rows.slice(0, MOST_ROWS - 1), others];
}

/** What stands before the @. */
function shortName(address: string): string {
  return address.split('@', 1)[0] ?? address;
}
