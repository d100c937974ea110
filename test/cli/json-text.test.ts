import { expect, test } from 'vitest';
import { jsonLine } from '../../src/core/terminal-safe.ts';

test('a line of JSON holds nothing that a terminal obeys, and says the same', () => {
  const hostile = {
    name: '\u001b]0;t\u0007\u009b2J\u007f\u202egnp.exe\u2066\u200f\u061c\u2028é👩‍👧',
  };
  const line = jsonLine(hostile);
  expect(line).toMatch(/^[^\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$/u);
  expect(line).toContain('é👩‍👧');
  expect(JSON.parse(line)).toEqual(hostile);
});
