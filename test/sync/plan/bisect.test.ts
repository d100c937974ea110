import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { UidInterval } from '../../../src/sync/plan/plan-folder.ts';
import { bisect } from '../../../src/sync/plan/plan-folder.ts';

const PAGE = 100;

/** Runs a bisection against an origin that holds `there`; counts requests, and collects the ranges it reads. */
function run(known: readonly number[], there: readonly number[], range: UidInterval) {
  const within = (uids: readonly number[], r: UidInterval) =>
    uids.filter((uid) => uid >= r.lo && uid <= r.hi);
  const walked: UidInterval[] = [];
  let requests = 0;
  const steps = bisect(known, range, within(there, range).length, PAGE);
  let step = steps.next();
  while (step.done !== true) {
    const { ask, range: asked } = step.value;
    const found = within(there, asked);
    if (ask === 'walk') {
      walked.push(asked);
      requests += Math.max(1, Math.ceil(found.length / PAGE));
      step = steps.next(0);
    } else {
      requests += 1;
      step = steps.next(found.length);
    }
  }
  return { walked, requests };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
const everything = { lo: 1, hi: Number.POSITIVE_INFINITY };

describe('bisecting for a difference', () => {
  it('asks nothing when the counts agree', () => {
    expect(run(upTo(5000), upTo(5000), everything)).toEqual({ walked: [], requests: 0 });
  });

  it('finds one deletion among 50,000 within 2 log2(N/100) requests', () => {
    for (const deleted of [1, 2, 777, 25_000, 25_001, 49_999, 50_000]) {
      const there = upTo(50_000).filter((uid) => uid !== deleted);
      const { walked, requests } = run(upTo(50_000), there, everything);
      expect(requests).toBeLessThanOrEqual(2 * Math.log2(500));
      expect(walked.some(({ lo, hi }) => deleted >= lo && deleted <= hi)).toBe(true);
    }
  });

  it('reads every range in which only deletions happened, and never costs much more than a walk', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3000 }),
        fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 400 }),
        (count, deletions) => {
          const gone = new Set(deletions);
          const known = upTo(count);
          const there = known.filter((uid) => !gone.has(uid));
          const { walked, requests } = run(known, there, everything);
          for (const uid of known) {
            if (gone.has(uid)) {
              expect(walked.some(({ lo, hi }) => uid >= lo && uid <= hi)).toBe(true);
            }
          }
          expect(requests).toBeLessThanOrEqual(2 * Math.ceil(count / PAGE) + 2);
        },
      ),
    );
  });

  it('finds messages that the archive does not know', () => {
    const known = upTo(2000).filter((uid) => uid !== 1234);
    const { walked } = run(known, upTo(2000), everything);
    expect(walked.some(({ lo, hi }) => 1234 >= lo && 1234 <= hi)).toBe(true);
  });
});
