import type { Connection } from '../connection.ts';
import { reachedCommit } from '../moments.ts';
import { numberList } from '../number-list.ts';
import type { PlaceSet } from '../place-sets.ts';
import type { View } from './conditions.ts';
import type { Conjunct } from './formula.ts';
import { sumsFilter } from './sums-filter.ts';

/** Messages that are in the same places. */
interface Total {
  readonly set: PlaceSet;
  readonly messages: number;
}

/** Sums change with commits only. */
const KEPT = new WeakMap<Connection, { readonly commit: number; readonly totals: Total[] }>();

/**
 * Counts what a query finds by the sums that the fold keeps: everything, folders, mailboxes, and what is deleted, each in
 * the time of a look at every set of places.
 *
 * @param isIndexed whether every message is in the full-text index, by which mailboxes are found
 * @returns undefined for any other query
 */
export function countBySets(
  connection: Connection,
  conjuncts: readonly Conjunct[],
  view: View,
  isIndexed: () => boolean,
): number | undefined {
  if (view.scope !== null) return undefined;
  const filter = sumsFilter(conjuncts, view, isIndexed);
  // The sums are of days; these are of all of them.
  if (filter === undefined || filter.low > 0 || filter.high < Number.MAX_SAFE_INTEGER)
    return undefined;
  let count = 0;
  for (const { set, messages } of totalsOf(connection))
    if (filter.fits(set, set.current.length === 0)) count += messages;
  return count;
}

function totalsOf(connection: Connection): readonly Total[] {
  const commit = reachedCommit(connection);
  const kept = KEPT.get(connection);
  if (kept?.commit === commit) return kept.totals;
  const rows = connection.text<{
    current: string;
    last: string;
    mailboxes: string;
    messages: number;
  }>(
    `SELECT s.current, s.last, s.mailboxes, sum(d.messages) AS messages
     FROM received_days d CROSS JOIN place_sets s ON s.id = d.place_set GROUP BY d.place_set`,
    [],
  );
  const totals = [...rows].map(({ current, last, mailboxes, messages }) => ({
    set: {
      current: numberList(current, connection.file),
      last: numberList(last, connection.file),
      mailboxes: numberList(mailboxes, connection.file),
    },
    messages,
  }));
  KEPT.set(connection, { commit, totals });
  return totals;
}
