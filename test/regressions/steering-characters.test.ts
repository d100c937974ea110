import { expect, test } from 'vitest';
import { plainLine, terminalLine } from '../../src/core/terminal-safe.ts';
import { displayName, extension } from '../../src/web/pages/conversation.tsx';

/** Characters that show a name in another order than it is written, or hide a part of it. */

const STEERING = [
  ...['\u202a', '\u202b', '\u202c', '\u202d', '\u202e', '\u2066', '\u2067', '\u2068', '\u2069'],
  ...['\u200e', '\u200f', '\u061c', '\u200b', '\u2060', '\ufeff', '\u00ad', '\u180e', '\u3164'],
  ...['\u0000', '\u001b', '\u009b', '\u2028', '\u{e0041}'],
];

test.each(STEERING)('a name with %j is shown as its letters are', (sign) => {
  const name = `evil${sign}gnp.exe`;
  expect([displayName(name), extension(name)]).toEqual([
    sign === '\u2028' ? 'evil gnp.exe' : 'evilgnp.exe',
    'EXE',
  ]);
  expect(terminalLine(name)).not.toContain(sign);
  expect(plainLine(`${sign}${sign}`)).toBe('');
});

test('a gap does not push the ending of a name out of sight', () => {
  expect(displayName(`invoice.pdf${' '.repeat(200)}.exe`)).toBe('invoice.pdf .exe');
  expect(displayName(`invoice.pdf${'\u3000'.repeat(200)}.exe`)).toBe('invoice.pdf .exe');
  expect([displayName('\u202e'), displayName(null)]).toEqual(['(no name)', '(no name)']);
});

test('what joins letters and emoji stays, in any script', () => {
  for (const name of ['می\u200cخواهم.pdf', '👨\u200d👩\u200d👧.png', 'תמונה.png', 'Grüße.pdf'])
    expect(displayName(name)).toBe(name);
});
