import { expect, test } from 'vitest';
import { textPieces } from '../../src/web/reading/message-view.ts';

test('a text of quotes and answers line by line keeps every line, in a limited number of pieces', () => {
  const text = 'answer\n> quote\n'.repeat(50_000);
  const pieces = textPieces(text);
  expect(pieces).toHaveLength(2_000);
  expect(pieces.flatMap(({ lines }) => lines).join('\n')).toBe(text);
});
