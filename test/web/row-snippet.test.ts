import { describe, expect, test } from 'vitest';
import { rowSnippet } from '../../src/web/pages/mail-page.tsx';

const cut = (text: string, word: string) => {
  const start = text.indexOf(word);
  const found = rowSnippet(text, [{ start, end: start + word.length }]);
  expect(found.matches.map((match) => found.text.slice(match.start, match.end))).toEqual([word]);
  return found.text;
};

describe('the snippet of a row', () => {
  test('begins with a word shortly before what was found', () => {
    expect(cut('… We met in Dublin and agreed to move the report to Friday.', 'report')).toBe(
      '… agreed to move the report to Friday.',
    );
  });

  test('stays as it is where what was found is near its beginning, and where nothing was', () => {
    const text = 'The report is a page long, and the rest of it is on the web.';
    expect(cut(text, 'report')).toBe(text);
    expect(rowSnippet(text, [])).toEqual({ text, matches: [] });
  });

  test('is cut within a word where there are no blanks, and never within a character', () => {
    expect(cut(`${'東'.repeat(60)}京都`, '京都')).toBe(`… ${'東'.repeat(20)}京都`);
    expect(cut(`a${'😀'.repeat(30)}!`, '!')).toBe(`… ${'😀'.repeat(10)}!`);
    expect(cut(`${'😀'.repeat(30)}x!`, '!')).toBe(`… ${'😀'.repeat(9)}x!`);
  });
});
