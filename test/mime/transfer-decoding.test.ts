import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QuotedPrintable } from '../../src/mail/transfer-decoding.ts';

/** What it means, written as expressions: right, and quadratic. */
function meant(text: string): string {
  return text
    .replace(/=[\t ]*(?:\r+\n?|\n|$)|[\t ]+(?=[\r\n]|$)/g, '')
    .replace(/=([\da-f]{2})/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
}

function decoded(pieces: readonly string[]): string {
  const decoder = new QuotedPrintable();
  const chunks = pieces.map((piece) => decoder.some(Buffer.from(piece, 'latin1')));
  return Buffer.concat([...chunks, decoder.rest()]).toString('latin1');
}

test.each([
  ['a=C3=A9b', 'a\u00c3\u00a9b'],
  ['soft=\r\nbreak=  \r\nagain=', 'softbreakagain'],
  ['blanks \t\r\n  before', 'blanks\r\n  before'],
  ['= 41 =4 =G1 =', '= 41 =4 =G1 '],
  ['=4=\r\n1', 'A'],
  ['\u00e9 stays', '\u00e9 stays'],
])('decodes %j', (text, expected) => {
  expect(decoded([text])).toBe(expected);
  expect(decoded([...text])).toBe(expected);
});

test('decodes whatever comes, in whatever pieces', () => {
  const piece = fc.constantFrom(' ', '\t', '=', '\r', '\n', '4', '1', 'G', 'a', '\u00e9', '=\r\n');
  fc.assert(
    fc.property(fc.array(fc.array(piece, { maxLength: 8 })), (typed) => {
      const pieces = typed.map((parts) => parts.join(''));
      expect(decoded(pieces)).toBe(meant(pieces.join('')));
    }),
    { numRuns: 2000 },
  );
});

test('keeps blanks of any length that end no line', () => {
  const blanks = ' '.repeat(100_000);
  const text = `=41${blanks}=${blanks}x${'y'.repeat(100_000)}`;
  const pieces = text.match(/.{1,30000}/g) ?? [];
  expect(decoded(pieces)).toBe(`A${text.slice(3)}`);
});
