/** Uids from `lo` to `hi`, both included. `hi` may be Infinity, to include uids that are not assigned yet. */
export interface UidInterval {
  readonly lo: number;
  readonly hi: number;
}

/** Disjoint, ascending, and never adjacent: `[1,5]` and `[6,9]` are stored as `[1,9]`. */
export type UidIntervals = readonly UidInterval[];

/** Returns the union of a set of intervals and one more. An empty interval (lo above hi) changes nothing. */
export function addInterval(set: UidIntervals, added: UidInterval): UidIntervals {
  if (added.lo > added.hi) return set;
  let { lo, hi } = added;
  const before: UidInterval[] = [];
  const after: UidInterval[] = [];
  for (const interval of set) {
    if (interval.hi < lo - 1) before.push(interval);
    else if (interval.lo > hi + 1) after.push(interval);
    else {
      lo = Math.min(lo, interval.lo);
      hi = Math.max(hi, interval.hi);
    }
  }
  return [...before, { lo, hi }, ...after];
}

/** Returns the parts of `within` that the set does not cover, ascending. */
export function gapsOf(set: UidIntervals, within: UidInterval): UidIntervals {
  const gaps: UidInterval[] = [];
  let next = within.lo;
  for (const interval of set) {
    if (interval.hi < next) continue;
    if (interval.lo > within.hi) break;
    if (interval.lo > next) gaps.push({ lo: next, hi: interval.lo - 1 });
    next = interval.hi + 1;
  }
  if (next <= within.hi) gaps.push({ lo: next, hi: within.hi });
  return gaps;
}

/** Returns whether every uid of `within` is covered. */
export function covers(set: UidIntervals, within: UidInterval): boolean {
  return gapsOf(set, within).length === 0;
}
