import type { UidInterval } from './uid-intervals.ts';

/** A question whose answer is sorted by uid: the uids of `range`, in this order, at most `perPage` of them. */
export interface PageQuestion {
  readonly range: UidInterval;
  readonly order: 'descending' | 'ascending';
  readonly perPage: number;
}

/** What a page of the origin says, as far as evidence is concerned. */
export interface PageAnswer {
  readonly uids: readonly number[];
  readonly total: number;
}

/**
 * The uids one answer speaks for.
 *
 * `whole`: the answer reaches the end of its question, because `total` is not above the number of its items.
 * `interval`: the part of the question it speaks for; null when it speaks for nothing (no items, yet a total).
 * `doubtful`: fewer items than a page holds although `total` promises more: something vanished between
 * counting and reading, or the origin lies. The same question is asked again, and a walk never ends on it.
 */
export interface PageEvidence {
  readonly whole: boolean;
  readonly interval: UidInterval | null;
  readonly doubtful: boolean;
}

/**
 * Weighs one answer. An answer sorted by uid speaks for the uids from its question's bound to its last uid, or
 * for the whole question when `total` is not above its items; never because a page is short.
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
