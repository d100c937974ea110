import { docidAt, hasDate } from '../mail/docid.ts';
import {
  countFacets,
  findDuplicates,
  largestMessages,
  matchingTypes,
  type Person,
  peopleByPrefix,
  storedTypes,
  topPeople,
  typesByPrefix,
} from './breakdowns.ts';
import type { Connection } from './database.ts';
import { archiveNames, type FolderName } from './folders.ts';
import { DOCIDS_PER_DAY } from './list.ts';
import type { Role } from './people.ts';
import type { CountRequest, SearchQueries } from './search.ts';
import { commitAt } from './sql.ts';
import {
  type Dimension,
  EVERYWHERE,
  listReceivedDays,
  MatchingMessages,
  matchAll,
  named,
  quotedTerm,
  ReceivedCounts,
  type StatsRow,
  type Sums,
  sumMessages,
} from './sums.ts';
import { enclosingPeriod } from './timeline.ts';

/** Yields the years or months from one docid to another, oldest first. */
function* periodsBetween(
  unit: 'year' | 'month',
  low: number,
  high: number,
  timeZone: string | undefined,
) {
  for (let at = low; at <= high; ) {
    const { key, ...period } = enclosingPeriod(unit, at, timeZone);
    yield { ...period, key: key.slice(0, unit === 'year' ? 4 : 7) };
    at = period.high;
  }
}

export interface StatsRequest extends Omit<CountRequest, 'node'> {
  readonly node?: CountRequest['node'] | undefined;
  /** IANA name, for years and months; defaults to this machine's zone. */
  readonly timeZone?: string | undefined;
}

/** Messages without a date have lower docids. */
const FIRST = docidAt(null);

function undatedRows(sums: Sums): StatsRow[] {
  return sums.messages === 0 ? [] : [{ key: 'no date', ...sums, query: '-after:1971-01-01' }];
}

export class StatsQuery {
  /** The query's matches; undefined if there is no query and stored totals can be used. */
  readonly found: MatchingMessages | undefined;
  readonly #all: MatchingMessages;

  constructor(
    private readonly connection: Connection,
    private readonly search: SearchQueries,
    private readonly request: StatsRequest,
  ) {
    const { node = matchAll() } = request;
    this.#all = new MatchingMessages(connection, search, { ...request, node });
    // Stored totals cover only the present.
    const isKept = request.node === undefined && request.asOf === undefined;
    this.found = isKept ? undefined : this.#all;
  }

  totals(): Sums {
    return this.found?.sums() ?? this.#received([]).all(() => true);
  }

  /** @param limit maximum number of rows needed; used only for people */
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
        return this.found === undefined && this.connection.scope === null
          ? storedTypes(this.connection, (type) => this.#count(type))
          : matchingTypes(this.connection, this.#all);
      case 'from':
      case 'to':
      case 'domain':
        return topPeople(this.connection, by, this.found, limit);
    }
  }

  #received(bounds: readonly number[]): ReceivedCounts {
    return new ReceivedCounts(this.connection, EVERYWHERE, bounds);
  }

  #count(type: string): number {
    return this.search.prepare({ ...this.request, node: named('mime', type) }).count();
  }

  #periods(unit: 'year' | 'month'): StatsRow[] {
    const { timeZone } = this.request;
    const between = (low: number, high: number) => [...periodsBetween(unit, low, high, timeZone)];
    const row = (key: string, sums: Sums): StatsRow => ({ key, ...sums, query: `date:${key}` });
    if (this.found === undefined) {
      const days = listReceivedDays(this.connection, EVERYWHERE, () => true);
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
    const messages = all.filter(({ docid }) => hasDate(docid));
    const undated = undatedRows(sumMessages(all.slice(messages.length)));
    const [newest, oldest] = [messages[0], messages.at(-1)];
    if (newest === undefined || oldest === undefined) return undated;
    // Both are sorted, so one pass over the messages is enough for any number of periods.
    let at = messages.length;
    const rows = between(oldest.docid, newest.docid).map(({ key, high }) => {
      const end = at;
      while (at > 0 && (messages[at - 1]?.docid ?? high) < high) at -= 1;
      return row(key, sumMessages(messages.slice(at, end)));
    });
    return [...undated, ...rows];
  }

  #mailboxes(): StatsRow[] {
    const sums = this.found === undefined ? this.#received([]) : undefined;
    const byAddress = new Map<string, Set<number>>();
    for (const { address, mailboxId } of this.#names().values())
      byAddress.set(address, (byAddress.get(address) ?? new Set()).add(mailboxId));
    return [...byAddress].map(([address, ids]) => ({
      key: address,
      ...(sums?.all(({ mailboxes }) => mailboxes.some((id) => ids.has(id))) ??
        this.#all.sums(named('mailbox', address))),
      query: quotedTerm('mailbox', address),
    }));
  }

  #folders(): StatsRow[] {
    // If a message has left the scope, its set does not record its last place there.
    const isStored = this.found === undefined && this.connection.scope === null;
    const sums = isStored ? this.#received([]) : undefined;
    const byPath = new Map<string, Set<number>>();
    for (const { path, id } of this.#names().values())
      byPath.set(path, (byPath.get(path) ?? new Set()).add(id));
    return [...byPath]
      .filter(([path]) => path.toLowerCase() !== 'anywhere')
      .map(([path, ids]) => ({
        key: path,
        ...(sums?.all(({ current, last }) => [...current, ...last].some((id) => ids.has(id))) ??
          this.#all.sums(named('folder', path))),
        query: quotedTerm('in', path),
      }));
  }

  #names(): ReadonlyMap<number, FolderName> {
    const { asOf } = this.request;
    const commit = asOf === undefined ? null : commitAt(this.connection, asOf);
    return archiveNames(this.connection, commit).folders;
  }
}

/** Statistics of the archive, from stored totals or by counting a query's matches. */
export function statsQueries(connection: Connection, search: SearchQueries) {
  const queryFor = (request: StatsRequest) => new StatsQuery(connection, search, request);
  const inSnapshot = <T>(act: () => T): T => connection.snapshot(act);
  return {
    totals: (request: StatsRequest) => inSnapshot(() => queryFor(request).totals()),
    /**
     * Returns the rows that contain messages: years and months in order, everything else by number of messages, highest
     * first. A message in two folders or mailboxes, or with two recipients, is counted in each.
     *
     * @param limit defaults to all
     */
    rows: (
      by: Dimension,
      request: StatsRequest,
      limit: number = Number.MAX_SAFE_INTEGER,
    ): StatsRow[] =>
      inSnapshot(() =>
        sortRows(
          by,
          queryFor(request)
            .rows(by, limit)
            .filter(({ messages }) => messages > 0),
        ).slice(0, limit),
      ),
    facets: (request: CountRequest, limit: number, mayContinue: () => boolean) =>
      inSnapshot(() => countFacets(connection, search, request, limit, mayContinue)),
    people: (
      typed: string,
      limit: number,
      mayContinue: () => boolean,
      role: Role | null = null,
    ): Person[] => inSnapshot(() => peopleByPrefix(connection, typed, limit, mayContinue, role)),
    /** The totals cover all mailboxes, so a limited reader gets none. */
    types: (prefix: string, limit: number) =>
      connection.scope === null ? typesByPrefix(connection, prefix, limit) : [],
    largest: (request: StatsRequest, limit: number) =>
      inSnapshot(() => largestMessages(connection, queryFor(request), limit)),
    duplicates: (request: StatsRequest, limit: number) =>
      inSnapshot(() => findDuplicates(connection, queryFor(request), limit)),
  };
}

function sortRows(by: Dimension, rows: readonly StatsRow[]): StatsRow[] {
  if (by === 'year' || by === 'month') return [...rows];
  return rows.toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1));
}
