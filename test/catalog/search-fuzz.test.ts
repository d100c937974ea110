import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { appeared, INBOX, openRoom, place, type Room, START } from './history.ts';

/** What queries are made of, and what breaks query languages. */
const PIECES = [
  ...[
    'word',
    '東京',
    'a@b.com',
    'foo-bar',
    'é',
    '*',
    'w*',
    'wo*',
    '字*',
    'from:me',
    'thread:00',
    '"a b"',
    '"',
    "'",
    '“',
    '”',
    '(',
    ')',
  ],
  ...['{', '}', '-', '--', '|', 'AND', 'OR', 'NOT', 'NEAR', 'NEAR/3', 'or', ':', '::', ',', ';'],
  ...['from:', 'subject:', 'in:', 'is:', 'has:', 'before:', 'size:', 'asof:', 'id:', 'list:', 'x:'],
  ...['from:(', 'is:unread', 'in:INBOX', 'in:*', 'is:deleted', 'larger:1k', 'date:2024..', '..'],
  ...['id:00', 'id:ffff', 'mime:image/*', 'flag:\\Seen', 'flag:"; DROP TABLE messages; --'],
  ...[
    'mailbox:me@example.net',
    '\0',
    '\ud800',
    '\u202e',
    '^',
    '+',
    '{a b} : c',
    'msg_fts',
    'rowid',
  ],
  ...['NULL', '"; SELECT', '1e999', '99999999999999999999', '2024-02-30', '0000', '@99999999999'],
];

describe('hostile queries', () => {
  let room: Room;
  let catalog: WritableCatalog;

  beforeAll(async () => {
    room = await openRoom();
    ({ catalog } = room);
    room.fold(...Array.from({ length: 50 }, (_, i) => appeared(place(INBOX, i + 1), `m${i}`)));
    room.index(() => ({ body: 'word 東京 a@b.com foo-bar é NEAR OR' }));
  });
  afterAll(() => room.close());

  /** Answers or refuses; whatever else is thrown fails the test. */
  const answer = (text: string): 'answered' | 'refused' => {
    try {
      const { node, asOf } = parseQuery(text, { now: START, timeZone: 'Europe/Berlin' });
      const request = { node, ...(asOf === null ? {} : { asOf }) };
      for (const sort of ['newest', 'oldest', 'relevance'] as const)
        catalog.prepare(request).page({ limit: 3, sort });
      catalog.prepare(request).count();
      return 'answered';
    } catch (error) {
      if (error instanceof MailkeepError && error.family === 'usage') {
        expect(error.code).toMatch(/^search-/);
        const { position } = error.facts;
        if (typeof position === 'number') {
          expect(position).toBeGreaterThanOrEqual(0);
          expect(position).toBeLessThanOrEqual(text.length);
        }
        return 'refused';
      }
      throw error;
    }
  };

  test('pieces of syntax in any order', () => {
    const seen = { answered: 0, refused: 0 };
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(...PIECES), fc.constantFrom('', ' ')), { maxLength: 12 }),
        (pieces) => {
          seen[answer(pieces.flat().join(''))] += 1;
        },
      ),
      { numRuns: 2_000 },
    );
    // Neither outcome is rare, so both are tested.
    expect(seen.answered).toBeGreaterThan(100);
    expect(seen.refused).toBeGreaterThan(100);
  });

  test('any text at all', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        answer(text);
      }),
      { numRuns: 1_000 },
    );
  });

  test('text that is quoted is looked for as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
        answer(`subject:"${text.replaceAll(/["“”]/g, '')}"`);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['many words', 'a '.repeat(51), 'search-too-complex'],
    ['a star after one letter', 'rent a*', 'search-short-prefix'],
    ['stars within a word', `${'a*'.repeat(1000)}a`, 'search-bad-wildcard'],
    ['longer stars within a word', 'ab*'.repeat(1000), 'search-bad-wildcard'],
    ['many spellings', `spelling:any ${'ü'.repeat(100)}`, 'search-too-complex'],
    ['many words with spellings', `spelling:any ${'uue '.repeat(40)}`, 'search-too-complex'],
    ['signs within a word', 'a.'.repeat(1000), 'search-too-complex'],
    ['a long phrase', `"${'a '.repeat(101)}"`, 'search-too-complex'],
    ['a long phrase in Chinese', `"${'中文'.repeat(60)}"`, 'search-too-complex'],
    ['many stars', 'ab* cd* ef* gh* ij* kl* mn*', 'search-too-complex'],
    ['a long chain of NEAR', Array(7).fill('a').join(' NEAR '), 'search-too-complex'],
    ['deep brackets', `${'('.repeat(60)}a${')'.repeat(60)}`, 'search-too-complex'],
    ['many exclusions in each other', `${'-('.repeat(60)}a${')'.repeat(60)}`, 'search-too-complex'],
    ['a long text', 'x'.repeat(5_000), 'search-too-long'],
    [
      'many alternatives of mixed filters',
      Array.from({ length: 8 }, (_, i) => `(w${i} OR larger:${i})`).join(' '),
      'search-too-complex',
    ],
  ])('%s are refused', (_name, text, code) => {
    expect(() => {
      const { node } = parseQuery(text, { now: START });
      catalog.prepare({ node }).page({ limit: 1, sort: 'newest' });
    }).toThrow(code);
  });

  test('more words than can be ranked are refused by relevance only', () => {
    const words = Array.from({ length: 20 }, (_, i) => `w${i}`).join(' OR ');
    const { node } = parseQuery(words, { now: START });
    expect(catalog.prepare({ node }).page({ limit: 1, sort: 'newest' }).hits).toEqual([]);
    expect(() => catalog.prepare({ node }).page({ limit: 1, sort: 'relevance' })).toThrow(
      'search-too-complex',
    );
  });
});
