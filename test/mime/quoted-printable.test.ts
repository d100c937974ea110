import { once } from 'node:events';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QuotedPrintableDecoder } from '../../src/mime/quoted-printable.ts';

/** What it means, written as expressions: right, and quadratic. */
function meant(text: string): string {
  return text
    .replace(/[\t ]+$/gm, '')
    .replace(/=(?:\r?\n|$)/g, '')
    .replace(/=([\da-f]{2})/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
}

async function decoded(pieces: readonly string[]): Promise<string> {
  const decoder = new QuotedPrintableDecoder();
  const chunks: Buffer[] = [];
  decoder.on('data', (chunk: Buffer) => chunks.push(chunk));
  const ended = once(decoder, 'end');
  for (const piece of pieces) decoder.write(Buffer.from(piece, 'latin1'));
  decoder.end();
  await ended;
  return Buffer.concat(chunks).toString('latin1');
}

test.each([
  ['a=C3=A9b', 'a\u00c3\u00a9b'],
  ['soft=\r\nbreak=  \r\nagain=', 'softbreakagain'],
  ['blanks \t\r\n  before', 'blanks\r\n  before'],
  ['= 41 =4 =G1 =', '= 41 =4 =G1 '],
  ['=4=\r\n1', 'A'],
  ['\u00e9 stays', '\u00e9 stays'],
])('decodes %j', async (text, expected) => {
  expect(await decoded([text])).toBe(expected);
  expect(await decoded([...text])).toBe(expected);
});

test('decodes whatever comes, in whatever pieces', async () => {
  const piece = fc.constantFrom(' ', '\t', '=', '\r', '\n', '4', '1', 'G', 'a', '\u00e9', '=\r\n');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(piece, { maxLength: 8 })), async (typed) => {
      const pieces = typed.map((parts) => parts.join(''));
      expect(await decoded(pieces)).toBe(meant(pieces.join('')));
    }),
    { numRuns: 2000 },
  );
});

test('keeps blanks of any length that end no line', async () => {
  const blanks = ' '.repeat(100_000);
  const text = `=41${blanks}=${blanks}x${'y'.repeat(100_000)}`;
  const pieces = text.match(/.{1,30000}/g) ?? [];
  expect(await decoded(pieces)).toBe(`A${text.slice(3)}`);
});
