import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import {
  excerpts,
  firstExcerpt,
  matchesBetween,
  soughtPhrases,
} from '../../src/catalog/snippets.ts';

const words = (query: string) => soughtPhrases(parseQuery(query, { now: 0 }).node, ['any']);
const filler = (length: number) =>
  'lorem ipsum dolor '.repeat(Math.ceil(length / 18)).slice(0, length);

test('each place is shown with what is around it, and places near each other together', () => {
  const text = `The lease and the Lease.\n${filler(3_000)} a lease ${filler(3_000)} no more leases`;
  const { parts, hits, complete } = excerpts(text, words('lease'));
  expect([hits, complete]).toEqual([3, true]);
  expect(parts.map(({ matches }) => matches.length)).toEqual([2, 1]);
  for (const { text: shown, matches } of parts)
    for (const { start, end } of matches)
      expect(shown.slice(start, end).toLowerCase()).toBe('lease');
  expect(parts[0]).toMatchObject({ before: false, after: true });
  expect(parts[0]?.text).toContain('\n');
  expect(parts[1]).toMatchObject({ before: true, after: true });
});

test('however many matches a text has, it is put in lower case once', () => {
  const text = 'lease of a lessee. '.repeat(2_000);
  const folded = vi.spyOn(String.prototype, 'toLowerCase');
  const found = [...matchesBetween(text, words('lease lessee absent less'), 0, text.length)];
  const characters = folded.mock.contexts.reduce((sum: number, one) => sum + String(one).length, 0);
  folded.mockRestore();
  expect(found).toHaveLength(4_000);
  // Once as a whole, and each word that may be one.
  expect(characters).toBeLessThan(3 * text.length);
});

test('without anything sought, or found, it is the beginning of the text', () => {
  const text = filler(9_000);
  for (const query of ['*', 'absent', 'subject:lorem']) {
    const { parts, hits } = excerpts(text, words(query));
    expect(hits).toBe(0);
    expect(parts).toHaveLength(1);
    expect(text.startsWith(parts[0]?.text ?? '-')).toBe(true);
    expect(parts[0]?.text.length).toBeLessThan(4_100);
  }
  expect(excerpts('', words('lease')).parts).toEqual([
    { text: '', matches: [], before: false, after: false },
  ]);
});

test('a text of nothing but hits is shown in part, and counted in part', () => {
  const { parts, hits, complete } = excerpts('lease '.repeat(40_000), words('lease'));
  expect([hits, complete]).toEqual([1_000, false]);
  const shown = parts.reduce((sum, { text }) => sum + text.length, 0);
  expect(shown).toBeLessThan(20_000);
  expect(excerpts('lease '.repeat(1_000), words('lease'))).toMatchObject({
    hits: 1_000,
    complete: true,
  });
});

test('hits are the same wherever they lie, with accents and in scripts without blanks', () => {
  const word = fc.constantFrom(
    'lease',
    'Léase',
    'LEASE',
    '賃貸lease契約',
    'leases',
    'x',
    '\n',
    '佐藤',
  );
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 60 }), fc.nat(5_000), (all, before) => {
      const text = `${filler(before)} ${all.join(' ')}`;
      const isHit = (one: string) => /^(?:lease|Léase|LEASE|賃貸lease契約)$/.test(one);
      const { hits, parts } = excerpts(text, words('lease'));
      expect(hits).toBe(all.filter(isHit).length);
      if (hits > 0) expect(parts[0]?.matches.length).toBeGreaterThan(0);
    }),
    { numRuns: 200 },
  );
});

test('a small page shows the first place, and else the beginning', () => {
  const text = `${filler(2_000)} the lease begins here ${filler(2_000)}`;
  const page = firstExcerpt(text, words('lease'));
  expect(page.matches).toHaveLength(1);
  expect(page.text.indexOf('lease')).toBeLessThan(120);
  expect(page.text.length).toBeLessThan(470);
  expect(firstExcerpt(text, [])).toMatchObject({ before: false, matches: [] });
  expect(firstExcerpt('A lease.', words('lease')).matches).toEqual([{ start: 2, end: 7 }]);
  const half = firstExcerpt(`${'x'.repeat(419)}😀${'y'.repeat(100)}`, []);
  expect(half.text.isWellFormed()).toBe(true);
});
