import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addInterval,
  covers,
  findGaps,
  type UidIntervals,
} from '../../../src/sync/plan/plan-folder.ts';

const TOP = 40;
const interval = fc
  .tuple(fc.integer({ min: 1, max: TOP }), fc.integer({ min: 1, max: TOP }))
  .map(([a, b]) => ({ lo: Math.min(a, b), hi: Math.max(a, b) }));

function uidsOf(set: UidIntervals): Set<number> {
  const uids = new Set<number>();
  for (const { lo, hi } of set) for (let uid = lo; uid <= hi; uid += 1) uids.add(uid);
  return uids;
}

describe('uid intervals', () => {
  it('hold exactly the uids that were added, disjoint, ascending and never touching', () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 12 }), (added) => {
        const set = added.reduce<UidIntervals>(addInterval, []);
        const expected = uidsOf(added);
        expect(uidsOf(set)).toEqual(expected);
        for (const [i, { lo, hi }] of set.entries()) {
          expect(lo).toBeLessThanOrEqual(hi);
          const next = set[i + 1];
          if (next !== undefined) expect(next.lo).toBeGreaterThan(hi + 1);
        }
      }),
    );
  });

  it('have gaps that are exactly what is missing within a range', () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 12 }), interval, (added, within) => {
        const set = added.reduce<UidIntervals>(addInterval, []);
        const missing = new Set([...uidsOf([within])].filter((uid) => !uidsOf(set).has(uid)));
        expect(uidsOf(findGaps(set, within))).toEqual(missing);
        expect(covers(set, within)).toBe(missing.size === 0);
      }),
    );
  });

  it('take an empty interval as nothing', () => {
    expect(addInterval([{ lo: 3, hi: 4 }], { lo: 9, hi: 8 })).toEqual([{ lo: 3, hi: 4 }]);
    expect(findGaps([], { lo: 2, hi: 1 })).toEqual([]);
  });
});
