import type { UidInterval } from './uid-intervals.ts';

/** A request for the uids of `range`, sorted in this order, at most `perPage` of them. */
export interface PageQuestion {
  readonly range: UidInterval;
  readonly order: 'descending' | 'ascending';
  readonly perPage: number;
}

/** The part of a page that counts as evidence. */
export interface PageAnswer {
  readonly uids: readonly number[];
  readonly total: number;
}

/**
 * The uids that one answer covers.
 *
 * `whole`: the answer reaches the end of its request, because `total` is not above the number of its items.
 * `interval`: the part of the request that it covers; null when it covers nothing (no items, yet a total).
 * `doubtful`: a page with fewer items than it can hold, although `total` is higher: something disappeared between
 * counting and reading, or the origin is wrong. The request is repeated, and a walk never ends on such a page.
 */
export interface PageEvidence {
  readonly whole: boolean;
  readonly interval: UidInterval | null;
  readonly doubtful: boolean;
}

/**
 * Weighs one answer. An answer sorted by uid covers the uids from the bound of its request to its last uid, or the
 * complete request when `total` is not above the number of its items; never just because a page is short.
 */
export function weighPage(question: PageQuestion, answer: PageAnswer): PageEvidence {
  const { range, order, perPage } = question;
  const count = answer.uids.length;
  if (answer.total <= count) return { whole: true, interval: range, doubtful: false };
  const last = answer.uids[count - 1];
  const doubtful = count < perPage;
  if (last === undefined) return { whole: false, interval: null, doubtful };
  const interval = order === 'descending' ? { lo: last, hi: range.hi } : { lo: range.lo, hi: last };
  return { whole: false, interval, doubtful };
}
