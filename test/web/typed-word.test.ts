import fc from 'fast-check';
import { expect, test } from 'vitest';
import { typedWord } from '../../src/web/typed-word.ts';

/** The caret is where the bar stands. */
function at(text: string) {
  const caret = text.indexOf('|');
  const query = text.replace('|', '');
  const word = typedWord(query, caret);
  return { ...word, replaced: query.slice(word.from, word.to) };
}

test.each([
  ['fr|', { operator: null, typed: 'fr', replaced: 'fr' }],
  ['ferry fr|', { operator: null, typed: 'fr', replaced: 'fr' }],
  ['fr|om:anna', { operator: null, typed: 'fr', replaced: 'from:' }],
  ['from:an|', { operator: 'from', typed: 'an', replaced: 'an' }],
  ['from:an|na ferry', { operator: 'from', typed: 'an', replaced: 'anna' }],
  ['FROM:|', { operator: 'from', typed: '', replaced: '' }],
  ['-in:Ol|', { operator: 'in', typed: 'Ol', replaced: 'Ol', excluded: true }],
  ['NOT in:Ol|', { operator: 'in', typed: 'Ol', excluded: true }],
  ['in:"Old ma|', { operator: 'in', typed: 'Old ma', replaced: '"Old ma' }],
  ['in:"Old ma|il" x', { operator: 'in', typed: 'Old ma', replaced: '"Old mail"' }],
  ['in:„Old ma|il“ x', { operator: 'in', typed: 'Old ma', replaced: '„Old mail“' }],
  ['(from:an|)', { operator: 'from', typed: 'an', replaced: 'an' }],
  ['"from:an|na"', { operator: null }],
  ['a | b', { operator: null, typed: '', replaced: '' }],
  ['@sav|', { operator: null, typed: '@sav', replaced: '@sav' }],
  ['|', { operator: null, typed: '', replaced: '' }],
])('%s', (text, expected) => {
  expect(at(text)).toMatchObject({ excluded: false, ...expected });
});

test('whatever is typed, the stretch holds the caret and lies within the query', () => {
  const piece = fc.constantFrom(
    '"',
    '“',
    '”',
    '„',
    ' ',
    '(',
    ')',
    '-',
    'in:',
    'a',
    ':',
    '\ud83d',
    '@',
    'NOT ',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.integer({ min: -3, max: 30 }), (all, at) => {
      const query = all.join('');
      const { from, to } = typedWord(query, at);
      const caret = Math.max(0, Math.min(query.length, at));
      expect(from).toBeLessThanOrEqual(caret);
      expect(to).toBeGreaterThanOrEqual(caret);
      expect(to).toBeLessThanOrEqual(query.length);
    }),
    { numRuns: 3_000 },
  );
});
