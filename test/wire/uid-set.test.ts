import { expect, test } from 'vitest';
import { inUidSet, parseUidSet } from '../../src/service/wire.ts';

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
