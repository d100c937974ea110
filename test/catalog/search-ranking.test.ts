import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import {
  appeared,
  entry,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  START,
  temporaryDir,
} from './history.ts';

const room = temporaryDir();
let catalog: WritableCatalog;

/** Oldest first: the best of them for a word is the oldest, and the newest has it least. */
const LETTERS = [
  { subject: 'ferry lighthouse', body: 'short' },
  { subject: 'plans', body: 'ferry ferry lighthouse' },
  { subject: 'plans', body: `ferry ${'and other words '.repeat(200)} lighthouse` },
];

beforeAll(async () => {
  catalog = await openCatalog(room.dir);
  const history = new History();
  catalog.foldBatch(history.commit([mailbox(INBOX, 'me@example.net'), folder(INBOX)]));
  const docid = (i: number) => (1_700_000_000 + i) * 64;
  catalog.foldBatch(
    history.commit(
      LETTERS.map((_, i) => appeared(place(INBOX, i + 1), `m${i}`, { docid: docid(i) })),
    ),
  );
  catalog.index.index(LETTERS.map((letter, i) => ({ docid: docid(i), entry: entry(letter) })));
});
afterAll(() => {
  catalog.close();
  room.remove();
});

const uids = (query: string, limit: number) =>
  catalog
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
