import { expect, test } from 'vitest';
import { isObjectName, isPlainName } from '../../src/copies/object-store.ts';

const FLEET =
  '0f0e0d0c-0b0a-4908-8706-050403020100/00112233445566aa/s/0000000001.2/1-40.7.0badcafe.seg';

test('dots are allowed within a part of a name, and never lead out of a folder', () => {
  for (const name of ['data/a', 'a.b', 'a..b', 'a.', '-.-/0', FLEET]) {
    expect(isObjectName(name), name).toBe(true);
  }
  const wrong = [
    ...['', '.', '..', '.a', '/a', 'a/', 'a//b', 'a/.', 'a/..', 'a/../b', './a', '../a', 'a/.b'],
    ...['a/.unfinished-1', 'A', 'a b', 'a\\b', 'a%2e', 'a\n', 'a\0b', 'ü', 'a'.repeat(241)],
  ];
  for (const name of wrong) expect(isObjectName(name), name).toBe(false);
  for (const name of [FLEET, 'a.b', ...wrong]) expect(isPlainName(name), name).toBe(false);
  expect(isPlainName('data/a-1')).toBe(true);
});
