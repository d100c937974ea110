import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addSums,
  countAccountedFor,
  countMissing,
  countOpenPlaces,
  differsOnlyByHeld,
  expectedAtOrigin,
  type FolderTotals,
  NO_PLACES,
} from '../../../src/core/types.ts';

// Powers of two: every sum names the parts it was made of.
const sums: FolderTotals = { stored: 1, assumed: 2, quarantined: 4, held: 8, forgotten: 16 };

const count = fc.nat({ max: 1000 });
const anySums = fc.record({
  stored: count,
  assumed: count,
  quarantined: count,
  held: count,
  forgotten: count,
});

describe('the sums of a folder', () => {
  test('account for all five kinds of places', () => {
    expect(countAccountedFor(sums)).toBe(31);
    expect(countAccountedFor(NO_PLACES)).toBe(0);
  });

  test('expect everything at the origin but what the brake holds', () => {
    expect(expectedAtOrigin(sums)).toBe(31 - 8);
  });

  test('count as open what has a message: not quarantined, not forgotten', () => {
    expect(countOpenPlaces(sums)).toBe(1 + 2 + 8);
  });

  test('lack what the origin counts beyond them, and never less than nothing', () => {
    expect(countMissing(40, sums)).toBe(9);
    expect(countMissing(31, sums)).toBe(0);
    expect(countMissing(30, sums)).toBe(0);
  });

  test.each([
    ['the origin lacks exactly what is held', 23, sums, true],
    ['the origin has what is held', 31, sums, false],
    ['something else differs as well', 22, sums, false],
    ['nothing is held', 23, { ...sums, held: 0 }, false],
  ])('differ by held places only: %s', (_name, total, of, expected) => {
    expect(differsOnlyByHeld(total, of)).toBe(expected);
  });

  test('add up kind by kind', () => {
    expect(addSums([])).toEqual(NO_PLACES);
    expect(addSums([sums, { ...NO_PLACES, held: 3 }])).toEqual({ ...sums, held: 11 });
  });

  test('account for a mailbox as its folders do, one by one', () => {
    fc.assert(
      fc.property(fc.array(anySums), (folders) => {
        const total = addSums(folders);
        for (const of of [countAccountedFor, expectedAtOrigin, countOpenPlaces]) {
          expect(of(total)).toBe(folders.reduce((sum, folder) => sum + of(folder), 0));
        }
      }),
    );
  });
});
