import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { soughtPhrases } from '../../src/catalog/snippets.ts';
import { textPieces } from '../../src/web/understood-query.ts';

const words = (query: string) => soughtPhrases(parseQuery(query, { now: 0 }).node);

test('a text of quotes and answers line by line keeps every line, in a limited number of pieces', () => {
  const text = 'answer\n> quote\n'.repeat(50_000);
  const pieces = textPieces(text);
  expect(pieces).toHaveLength(2_000);
  expect(pieces.flatMap(({ lines }) => lines).join('\n')).toBe(text);
});

test('what the query matched is marked where it stands in its piece', () => {
  const pieces = textPieces('The Lease,\r\nand "the lease".\n> a deposit\n-- \nDéposit', [
    ...words('lease OR deposit -the'),
  ]);
  const marked = pieces.map(({ kind, lines, matches }) => [
    kind,
    matches.map(({ start, end }) => lines.join('\n').slice(start, end)),
  ]);
  expect(marked).toEqual([
    ['text', ['Lease', 'lease']],
    ['quote', ['deposit']],
    ['signature', ['Déposit']],
  ]);
});

test('matches are marked up to a limit, in a text of any length', () => {
  const pieces = textPieces('lease '.repeat(500_000), words('lease'));
  expect(pieces.flatMap(({ matches }) => matches)).toHaveLength(1_000);
  const late = textPieces(`${'x '.repeat(500_000)}lease`, words('lease'));
  expect(late.flatMap(({ matches }) => matches)).toEqual([]);
});
