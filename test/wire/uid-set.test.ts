import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatUidSet, inUidSet, parseUidSet } from '../../src/wire/uid-set.ts';

test.each([
  ['7', [{ from: 7, to: 7 }]],
  ['1:100', [{ from: 1, to: 100 }]],
  ['100:*', [{ from: 100, to: '*' }]],
  ['*', [{ from: '*', to: '*' }]],
  [
    '3,9:12',
    [
      { from: 3, to: 3 },
      { from: 9, to: 12 },
    ],
  ],
  ['4294967295', [{ from: 4294967295, to: 4294967295 }]],
])('%s is read', (text, ranges) => {
  expect(parseUidSet(text)).toEqual(ranges);
});

test.each(['', ',', '1,', '0', '1:0', '1:2:3', '-1', 'a', '1 ', '4294967296', '1;2', '٣'])(
  '%j is no uid set',
  (text) => {
    expect(parseUidSet(text)).toBeNull();
  },
);

test.each([
  ['5:*', 3, 3, true],
  ['5:*', 2, 3, false],
  ['10:5', 7, 100, true],
  ['*', 9, 9, true],
  ['*', 8, 9, false],
])('in %s, uid %i of a folder up to %i: %j', (text, uid, highest, inside) => {
  expect(inUidSet(parseUidSet(text) ?? [], uid, highest)).toBe(inside);
});

test('formatting gives the shortest set of exactly these uids', () => {
  expect(formatUidSet([9, 3, 1, 2, 9, 12])).toBe('1:3,9,12');
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { minLength: 1 }), (uids) => {
      const ranges = parseUidSet(formatUidSet(uids)) ?? [];
      const inside = Array.from({ length: 61 }, (_, uid) => uid).filter((uid) =>
        inUidSet(ranges, uid, 60),
      );
      expect(inside).toEqual([...uids].sort((a, b) => a - b));
    }),
  );
});
