import { expect, test } from 'vitest';
import { isObjectName } from '../../src/copies/object-store.ts';
import { ObjectNames } from '../../src/fleet/object-names.ts';
import { seeded } from '../bench/seeded.ts';

const FLEET = '0f0e0d0c-0b0a-4908-8706-050403020100';
const MOST = Number.MAX_SAFE_INTEGER;

test('names of objects say what they hold, and are never used twice', () => {
  const random = seeded('names');
  const logId = Buffer.from('00112233445566aa', 'hex');
  const names = new ObjectNames({ fleet: FLEET, logId }, (count) => random.bytes(count));
  const commits = { first: 1, last: 40 };
  const all = [1, 2].flatMap(() => [
    names.sealed({ segment: 1, generation: 2 }, commits, 7),
    names.chunk(3, commits, 7),
    names.snapshot(40, 7),
  ]);
  expect(new Set(all).size).toBe(all.length);
  const shown = all.slice(0, 3).map((name) => name.replace(/[0-9a-f]{16}(?=\.[cs])/, '<random>'));
  expect(shown).toEqual([
    `${FLEET}/00112233445566aa/s/0000000001.2/1-40.7.<random>.seg`,
    `${FLEET}/00112233445566aa/c/0000000003.1/1-40.7.<random>.chunk`,
    `${FLEET}/00112233445566aa/catalog/40.7.<random>.sqlite.z`,
  ]);
  const longest = { segment: 0xffff_ffff, generation: 65_535 };
  const range = { first: MOST, last: MOST };
  expect(isObjectName(names.sealed(longest, range, MOST))).toBe(true);
  expect(all.every(isObjectName)).toBe(true);
});
