import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { FromLineQuoter, mboxRanges, unquoteFromLines } from '../../src/mail/mail-files.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-mbox-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const line = fc.constantFrom(
  'From ',
  '>From x',
  '>>From ',
  'From',
  '>',
  'Fro',
  '',
  'text',
  '\r',
  ' From ',
);
const source = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '')), { maxLength: 12 })
  .map((lines) => Buffer.from(lines.flat().join('')));

function through(quotes: FromLineQuoter, bytes: Buffer, cuts: readonly number[]): Buffer {
  const out: Buffer[] = [];
  let at = 0;
  for (const cut of [...cuts.map((it) => it % (bytes.length + 1)), bytes.length].sort(
    (a, b) => a - b,
  )) {
    out.push(...[...quotes.take(bytes.subarray(at, cut))].map((piece) => Buffer.from(piece)));
    at = cut;
  }
  return Buffer.concat([...out, ...quotes.end()]);
}

it('quoting is undone by unquoting, however the bytes come in pieces', () => {
  fc.assert(
    fc.property(source, fc.array(fc.nat(), { maxLength: 8 }), fc.array(fc.nat()), (bytes, a, b) => {
      const quoted = through(new FromLineQuoter(1), bytes, a);
      expect(quoted.toString('latin1')).not.toMatch(/(^|\n)From /);
      expect(through(new FromLineQuoter(-1), quoted, b)).toEqual(bytes);
      expect(unquoteFromLines(quoted)).toEqual(bytes);
    }),
    { numRuns: 2000 },
  );
});

it.each([1, -1] as const)('a line of nothing but > is passed on as it comes (%i)', (change) => {
  const quotes = new FromLineQuoter(change);
  const piece = Buffer.alloc(1_000, '>');
  let [given, told] = [0, 0];
  const pass = (bytes: Buffer): void => {
    given += bytes.length;
    for (const out of quotes.take(bytes)) told += out.length;
    expect(given - told).toBeLessThanOrEqual(5);
  };
  for (let n = 0; n < 2_000; n += 1) pass(piece);
  for (const letter of 'From') pass(Buffer.from(letter));
  told += [...quotes.take(Buffer.from(' x'))].reduce((sum, { length }) => sum + length, 0);
  expect(told).toBe(given + 2 + change);
});

it('messages that end in a line come out of an mbox as they went in', () => {
  const file = path.join(folder, 'some.mbox');
  fc.assert(
    fc.property(fc.array(source, { maxLength: 6 }), (sources) => {
      const whole = sources.map((it) =>
        it.length === 0 || it.at(-1) === 10 ? it : Buffer.concat([it, Buffer.from('\n')]),
      );
      writeFileSync(
        file,
        Buffer.concat(
          whole.flatMap((it) => [
            Buffer.from('From a@example.org Thu Jan  1 00:00:00 1970\n'),
            through(new FromLineQuoter(1), it, []),
            Buffer.from('\n'),
          ]),
        ),
      );
      const bytes = readFileSync(file);
      const read = [...mboxRanges(file)].map(({ start, end }) =>
        unquoteFromLines(bytes.subarray(start, end)),
      );
      expect(read).toEqual(whole);
    }),
    { numRuns: 500 },
  );
});
