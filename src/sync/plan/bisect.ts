import type { UidInterval } from './coverage.ts';

/** A question of a bisection. The answer to a count is a number; a walk needs none, because its pages are recorded. */
export type BisectQuestion =
  | { readonly ask: 'count'; readonly range: UidInterval }
  | { readonly ask: 'walk'; readonly range: UidInterval };

/**
 * Searches for the uids in which archive and origin differ, with as few requests as halving allows: a range whose count
 * is as expected is skipped, one that fits on a page is read, any other is cut at its middle uid. When so much differs
 * that halving would cost more, the range is walked.
 *
 * Yields questions; expects the origin's count as the answer to a `count`.
 *
 * @param known uids that are expected to answer, ascending
 * @param range the uids in question; `known` outside of it is ignored
 * @param total how many the origin has in the range
 */
export function* bisect(
  known: readonly number[],
  range: UidInterval,
  total: number,
  pageSize: number,
): Generator<BisectQuestion, void, number> {
  const from = firstAtLeast(known, range.lo);
  const to = firstAtLeast(known, range.hi + 1);
  const expected = to - from;
  const difference = Math.abs(expected - total);
  if (difference === 0) return;
  const largest = Math.max(expected, total);
  const pages = Math.ceil(largest / pageSize);
  const halvings = Math.ceil(Math.log2(Math.max(1, pages)));
  if (pages <= 1 || expected < 2 || difference * (halvings + 1) >= pages) {
    yield { ask: 'walk', range };
    return;
  }
  const middle = known[from + Math.floor(expected / 2) - 1] ?? range.lo;
  const lower = { lo: range.lo, hi: middle };
  const below = yield { ask: 'count', range: lower };
  yield* bisect(known, lower, below, pageSize);
  yield* bisect(known, { lo: middle + 1, hi: range.hi }, total - below, pageSize);
}

/** Returns the index of the first uid at or above `uid`. */
function firstAtLeast(uids: readonly number[], uid: number): number {
  let lo = 0;
  let hi = uids.length;
  while (lo < hi) {
    const middle = (lo + hi) >>> 1;
    if ((uids[middle] ?? 0) < uid) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}
