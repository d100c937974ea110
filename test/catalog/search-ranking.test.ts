import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { appeared, INBOX, openRoom, place, type Room, START } from './history.ts';

let room: Room;

/** Oldest first: the best of them for a word is the oldest, and the newest has it least. */
const LETTERS = [
  { subject: 'ferry lighthouse', body: 'short' },
  { subject: 'plans', body: 'ferry ferry lighthouse' },
  { subject: 'plans', body: `ferry ${'and other words '.repeat(200)} lighthouse` },
];

beforeAll(async () => {
  room = await openRoom();
  const docid = (i: number) => (1_700_000_000 + i) * 64;
  room.fold(...LETTERS.map((_, i) => appeared(place(INBOX, i + 1), `m${i}`, { docid: docid(i) })));
  room.index(({ docid: one }) => LETTERS.find((_, i) => docid(i) === one) ?? {});
});
afterAll(() => room.close());

const uids = (query: string, limit: number) =>
  room.catalog
    .prepare({ node: parseQuery(query, { now: START }).node })
    .page({ limit, sort: 'relevance' })
    .hits.map(({ line }) => line.uid);

test.each([
  'ferry',
  'ferry lighthouse',
  '"ferry" -absent',
  'ferry OR lighthouse',
  'ferry OR in:INBOX',
])('the best come first, however old: %s', (query) => {
  expect(uids(query, 3)).toEqual([1, 2, 3]);
  expect(uids(query, 1)).toEqual([1]);
});

test.each([
  '-absent',
  'in:INBOX',
  '-has:attachment',
  '-absent in:INBOX',
  'in:I* -lighthouses -(in:INBOX absent)',
  '*',
])('where there is nothing to rank by, the newest come first: %s', (query) => {
  expect(uids(query, 3)).toEqual([3, 2, 1]);
  expect(uids(query, 1)).toEqual([3]);
});

test('ranks by as many words as it says, and by no more', () => {
  const words = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`).join(' OR ');
  expect(uids(`${words(16)} has:attachment`, 1)).toEqual([]);
  expect(() => uids(words(17), 1)).toThrow('search-too-complex');
});
