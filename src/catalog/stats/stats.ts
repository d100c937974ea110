import type { Connection } from '../connection.ts';
import type { Scope } from '../scope.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { Asked, type StatsRequest } from './asked.ts';
import { typesCalled } from './by-content.ts';
import { duplicates } from './duplicates.ts';
import { type Facets, facets } from './facets.ts';
import { largest } from './largest.ts';
import { type Person, peopleCalled } from './people-called.ts';
import type { Dimension, DuplicateRow, LargeMessage, StatsRow, Sums } from './rows.ts';

/** Statistics of the archive. Without a query, from sums that are kept; with one, by counting what it finds. */
export interface StatsQueries {
  /** Messages, bytes and deleted ones in all. */
  totals(request: StatsRequest): Sums;
  /**
   * Rows that have messages: years and months in their order, all others with the most messages first. A message in two
   * folders, mailboxes, or with two recipients counts in each.
   *
   * @param limit at most so many; all where it is not given
   */
  rows(by: Dimension, request: StatsRequest, limit?: number): StatsRow[];
  /** See `facets`: all dimensions of the newest messages that a query finds, in one walk. */
  facets(request: CountRequest, limit: number, mayContinue: () => boolean): Facets;
  /** People by the beginning of their address or name: see `peopleCalled`. */
  people(typed: string, limit: number, scope?: Scope, mayContinue?: () => boolean): Person[];
  /** Types of attachments that begin so, with their distinct contents; the commonest first, and none in a scope. */
  types(prefix: string, limit: number): { readonly type: string; readonly contents: number }[];
  /** The largest messages, at most `limit`, the largest first. */
  largest(request: StatsRequest, limit: number): LargeMessage[];
  /** Messages that share a Message-ID, at most `limit` groups, the largest first. */
  duplicates(request: StatsRequest, limit: number): DuplicateRow[];
}

export function statsQueries(connection: Connection, search: SearchQueries): StatsQueries {
  const asked = (request: StatsRequest) => new Asked(connection, search, request);
  const within = <T>(act: () => T): T => connection.snapshot(act);
  return {
    totals: (request) => within(() => asked(request).totals()),
    rows: (by, request, limit = Number.MAX_SAFE_INTEGER) =>
      within(() =>
        inOrder(
          by,
          asked(request)
            .rows(by, limit)
            .filter(({ messages }) => messages > 0),
        ).slice(0, limit),
      ),
    facets: (request, limit, mayContinue) =>
      within(() => facets(connection, search, request, limit, mayContinue)),
    people: (typed, limit, scope, mayContinue = () => true) =>
      within(() => peopleCalled(connection, typed, limit, scope ?? null, mayContinue)),
    types: (prefix, limit) => typesCalled(connection, prefix, limit),
    largest: (request, limit) => within(() => largest(connection, asked(request), limit)),
    duplicates: (request, limit) => within(() => duplicates(connection, asked(request), limit)),
  };
}

function inOrder(by: Dimension, rows: readonly StatsRow[]): StatsRow[] {
  if (by === 'year' || by === 'month') return [...rows];
  return rows.toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1));
}
