import { docidAt, isDated, receivedAt } from '../mail/docid.ts';
import {
  duplicates,
  facets,
  foundPeople,
  foundTypes,
  keptPeople,
  keptTypes,
  largest,
  type Person,
  peopleCalled,
  typesCalled,
} from './breakdowns.ts';
import type { Connection } from './database.ts';
import { archiveNames, type FolderName, namesWithin } from './folders.ts';
import { DOCIDS_PER_DAY } from './list.ts';
import { localMoment, wallTime } from './query-dates.ts';
import type { CountRequest, SearchQueries } from './search.ts';
import { commitAt, type Scope } from './sql.ts';
import {
  type Dimension,
  daysReceived,
  everything,
  Found,
  named,
  Received,
  type StatsRow,
  type Sums,
  sumsOf,
  term,
} from './sums.ts';

/** A year or month of a time zone. */
interface Period {
  /** `2026` or `2026-03`. */
  readonly key: string;
  /** Docids of its messages, from `low` (included) to `high` (excluded). */
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the years or months of a zone that a stretch of time touches, the oldest first.
 *
 * @param from milliseconds since the epoch, as is `to`
 * @param timeZone IANA name; absent: this machine's
 */
function periodsBetween(
  unit: 'year' | 'month',
  from: number,
  to: number,
  timeZone: string | undefined,
): Period[] {
  const periods: Period[] = [];
  const wall = wallTime(from, timeZone);
  const last = wallTime(to, timeZone);
  let { year } = wall;
  let month = unit === 'year' ? 1 : wall.month;
  while (year < last.year || (year === last.year && month <= last.month)) {
    const next =
      unit === 'year' || month === 12 ? { year: year + 1, month: 1 } : { year, month: month + 1 };
    const name = String(year).padStart(4, '0');
    periods.push({
      key: unit === 'year' ? name : `${name}-${String(month).padStart(2, '0')}`,
      low: docidAt(localMoment({ year, month, day: 1 }, timeZone)),
      high: docidAt(localMoment({ ...next, day: 1 }, timeZone)),
    });
    ({ year, month } = next);
  }
  return periods;
}

/** Which messages are counted. */
export interface StatsRequest extends Omit<CountRequest, 'node'> {
  /** Only what this finds; everything where it is not given. */
  readonly node?: CountRequest['node'] | undefined;
  /** IANA name of the zone whose years and months are meant; absent: this machine's. */
  readonly timeZone?: string | undefined;
}

/** Messages without a date come before this docid. */
const FIRST = docidAt(null);

/** A row for messages without a date, if there are any. */
function undatedRows(sums: Sums): StatsRow[] {
  return sums.messages === 0 ? [] : [{ key: 'no date', ...sums, query: '-after:1971-01-01' }];
}

/** One question about the archive. */
export class Asked {
  /** What the query finds; undefined where there is none, and sums may answer. */
  readonly found: Found | undefined;
  readonly scope: Scope | null;
  readonly #all: Found;

  constructor(
    private readonly connection: Connection,
    private readonly search: SearchQueries,
    private readonly request: StatsRequest,
  ) {
    const { node = everything() } = request;
    this.scope = request.scope ?? null;
    this.#all = new Found(connection, search, { ...request, node });
    // Sums are those of now.
    const isKept = request.node === undefined && request.asOf === undefined;
    this.found = isKept ? undefined : this.#all;
  }

  totals(): Sums {
    return this.found?.sums() ?? this.#received([]).all(() => true);
  }

  /** @param limit rows of people that are needed, at least */
  rows(by: Dimension, limit: number): StatsRow[] {
    switch (by) {
      case 'year':
      case 'month':
        return this.#periods(by);
      case 'mailbox':
        return this.#mailboxes();
      case 'folder':
        return this.#folders();
      case 'type':
        return this.found === undefined && this.scope === null
          ? keptTypes(this.connection, (type) => this.#count(type))
          : foundTypes(this.#all);
      case 'from':
      case 'to':
      case 'domain':
        return this.found === undefined
          ? keptPeople(this.connection, by, this.scope, limit)
          : foundPeople(by, this.found, limit);
    }
  }

  #received(bounds: readonly number[]): Received {
    return new Received(this.connection, { scope: this.scope, fits: null }, bounds);
  }

  #count(type: string): number {
    return this.search.countHits({ ...this.request, node: named('mime', type) });
  }

  #periods(unit: 'year' | 'month'): StatsRow[] {
    const { timeZone } = this.request;
    const between = (low: number, high: number): Period[] =>
      periodsBetween(unit, receivedAt(low), receivedAt(high), timeZone);
    const row = (key: string, sums: Sums): StatsRow => ({ key, ...sums, query: `date:${key}` });
    if (this.found === undefined) {
      const filter = { scope: this.scope, fits: null };
      const days = daysReceived(this.connection, filter, () => true);
      const [first = 0, last = -1] = [days[0], days.at(-1)];
      const dated =
        first > last ? [] : between(first * DOCIDS_PER_DAY, (last + 1) * DOCIDS_PER_DAY - 1);
      const bounds = dated.flatMap(({ low, high }, at) => (at === 0 ? [low, high] : [high]));
      const sums = this.#received(bounds).of(() => true);
      const undated = this.#received([FIRST]).before(() => true);
      const rows = sums.map((sum, at) => row(dated[at]?.key ?? '', sum));
      return [...undatedRows(undated), ...rows];
    }
    const all = this.found.messages();
    const messages = all.filter(({ docid }) => isDated(docid));
    const undated = undatedRows(sumsOf(all.slice(messages.length)));
    const [newest, oldest] = [messages[0], messages.at(-1)];
    if (newest === undefined || oldest === undefined) return undated;
    // Both are in order: one walk over the messages, however many periods there are.
    let at = messages.length;
    const rows = between(oldest.docid, newest.docid).map(({ key, high }) => {
      const end = at;
      while (at > 0 && (messages[at - 1]?.docid ?? high) < high) at -= 1;
      return row(key, sumsOf(messages.slice(at, end)));
    });
    return [...undated, ...rows];
  }

  #mailboxes(): StatsRow[] {
    const kept = this.found === undefined ? this.#received([]) : undefined;
    const byAddress = new Map<string, Set<number>>();
    for (const { address, mailboxId } of this.#names().values())
      byAddress.set(address, (byAddress.get(address) ?? new Set()).add(mailboxId));
    return [...byAddress].map(([address, ids]) => ({
      key: address,
      ...(kept?.all(({ mailboxes }) => mailboxes.some((id) => ids.has(id))) ??
        this.#all.sums(named('mailbox', address))),
      query: term('mailbox', address),
    }));
  }

  #folders(): StatsRow[] {
    // A set does not say where a message was last within a scope that it left.
    const kept = this.found === undefined && this.scope === null ? this.#received([]) : undefined;
    const byPath = new Map<string, Set<number>>();
    for (const { path, id } of this.#names().values())
      byPath.set(path, (byPath.get(path) ?? new Set()).add(id));
    return [...byPath]
      .filter(([path]) => path.toLowerCase() !== 'anywhere')
      .map(([path, ids]) => ({
        key: path,
        ...(kept?.all(({ current, last }) => [...current, ...last].some((id) => ids.has(id))) ??
          this.#all.sums(named('folder', path))),
        query: term('in', path),
      }));
  }

  #names(): ReadonlyMap<number, FolderName> {
    const { asOf } = this.request;
    const commit = asOf === undefined ? null : commitAt(this.connection, asOf);
    const { folders } = archiveNames(this.connection, commit);
    return this.scope === null ? folders : namesWithin(folders, this.scope);
  }
}

/** Statistics of the archive. Without a query, from sums that are kept; with one, by counting what it finds. */
export function statsQueries(connection: Connection, search: SearchQueries) {
  const asked = (request: StatsRequest) => new Asked(connection, search, request);
  const within = <T>(act: () => T): T => connection.snapshot(act);
  return {
    /** Messages, bytes and deleted ones in all. */
    totals: (request: StatsRequest) => within(() => asked(request).totals()),
    /**
     * Rows that have messages: years and months in their order, all others with the most messages first. A message in two
     * folders, mailboxes, or with two recipients counts in each.
     *
     * @param limit at most so many; all where it is not given
     */
    rows: (
      by: Dimension,
      request: StatsRequest,
      limit: number = Number.MAX_SAFE_INTEGER,
    ): StatsRow[] =>
      within(() =>
        inOrder(
          by,
          asked(request)
            .rows(by, limit)
            .filter(({ messages }) => messages > 0),
        ).slice(0, limit),
      ),
    /** See `facets`: all dimensions of the newest messages that a query finds, in one walk. */
    facets: (request: CountRequest, limit: number, mayContinue: () => boolean) =>
      within(() => facets(connection, search, request, limit, mayContinue)),
    /** People by the beginning of their address or name: see `peopleCalled`. */
    people: (
      typed: string,
      limit: number,
      scope?: Scope,
      mayContinue: () => boolean = () => true,
    ): Person[] => within(() => peopleCalled(connection, typed, limit, scope ?? null, mayContinue)),
    /** Types of attachments that begin so, with their distinct contents; the commonest first, and none in a scope. */
    types: (
      prefix: string,
      limit: number,
    ): { readonly type: string; readonly contents: number }[] =>
      typesCalled(connection, prefix, limit),
    /** The largest messages, at most `limit`, the largest first. */
    largest: (request: StatsRequest, limit: number) =>
      within(() => largest(connection, asked(request), limit)),
    /** Messages that share a Message-ID, at most `limit` groups, the largest first. */
    duplicates: (request: StatsRequest, limit: number) =>
      within(() => duplicates(connection, asked(request), limit)),
  };
}

function inOrder(by: Dimension, rows: readonly StatsRow[]): StatsRow[] {
  if (by === 'year' || by === 'month') return [...rows];
  return rows.toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1));
}
