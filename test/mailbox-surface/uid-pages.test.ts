import fc from 'fast-check';
import { expect, test } from 'vitest';
import { spansOf } from '../../src/service/surface.ts';
import { inUidSet, parseUidSet } from '../../src/service/wire.ts';

const end = fc.oneof(fc.integer({ min: 1, max: 40 }).map(String), fc.constant('*'));
const range = fc.oneof(
  end,
  fc.tuple(end, end).map(([a, b]) => `${a}:${b}`),
);
const set = fc.array(range, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(','));

test('spans hold the uids the set holds, sorted and apart from each other', () => {
  fc.assert(
    fc.property(set, fc.integer({ min: 1, max: 30 }), (text, last) => {
      const ranges = parseUidSet(text) ?? [];
      const spans = spansOf(ranges, last);
      for (let uid = 1; uid <= 45; uid += 1) {
        const inSpans = spans.some(({ low, high }) => low <= uid && uid <= high);
        expect(inSpans).toBe(inUidSet(ranges, uid, last));
      }
      spans.forEach(({ low, high }, index) => {
        expect(low).toBeLessThanOrEqual(high);
        const next = spans[index + 1];
        if (next !== undefined) expect(next.low).toBeGreaterThan(high + 1);
      });
    }),
  );
});

test('n:* beyond the last uid is the last message', () => {
  expect(spansOf(parseUidSet('900:*') ?? [], 12)).toEqual([{ low: 12, high: 900 }]);
});
