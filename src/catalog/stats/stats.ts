import type { Connection } from '../connection.ts';
import type { Scope } from '../scope.ts';
import type { SearchQueries } from '../search/search.ts';
import { Asked, type StatsRequest } from './asked.ts';
import { type Person, peopleCalled } from './by-content.ts';
import { duplicates } from './duplicates.ts';
import { largest } from './largest.ts';
import type { Dimension, DuplicateRow, LargeMessage, StatsRow, Sums } from './rows.ts';

/** Statistics of the archive. Without a query, from sums that are kept; with one, by counting what it finds. */
export interface StatsQueries {
  /** Messages, bytes and deleted ones in all. */
  totals(request: StatsRequest): Sums;
  /**
   * Rows that have messages: years and months in their order, all others with the most messages first. A message in two
   * folders, mailboxes, or with two recipients counts in each.
   */
  rows(by: Dimension, request: StatsRequest): StatsRow[];
  /** People whose address begins so, at most `limit`, those who were written to most first. */
  people(prefix: string, limit: number, scope?: Scope): Person[];
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
    rows: (by, request) =>
      within(() =>
        inOrder(
          by,
          asked(request)
            .rows(by)
            .filter(({ messages }) => messages > 0),
        ),
      ),
    people: (prefix, limit, scope) => peopleCalled(connection, prefix, limit, scope ?? null),
    largest: (request, limit) => within(() => largest(connection, asked(request), limit)),
    duplicates: (request, limit) => within(() => duplicates(connection, asked(request), limit)),
  };
}

function inOrder(by: Dimension, rows: readonly StatsRow[]): StatsRow[] {
  if (by === 'year' || by === 'month') return [...rows];
  return rows.toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1));
}
