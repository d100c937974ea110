import { expect, test } from 'vitest';
import { apiOrigin } from '../../../src/sync/api-origin.ts';
import { json, startOrigin } from '../../api/local-origin.ts';
import { mailboxClient } from '../../api/test-clients.ts';

const signal = new AbortController().signal;

const folder = (path: string) => ({ path, messageCount: 1 });

/** The folders that `pages` of 100 show, when the service says it has `total`. */
async function foldersOf(pages: (page: number) => readonly object[], total: number) {
  const origin = await startOrigin((request, response) => {
    const page = Number(new URL(request.path, 'http://x').searchParams.get('page'));
    const body = { data: pages(page), pagination: { page, perPage: 100, total } };
    return json(200, body)(request, response);
  });
  const { client } = mailboxClient(origin.url);
  const listing = await apiOrigin(client, '/nowhere').folders('AC1', signal);
  return { ...listing, requests: origin.seen.length };
}

const full = (page: number) => Array.from({ length: 100 }, (_, i) => folder(`F${page}.${i}`));

test('a folder that comes on two pages is one folder, and the listing lacks another', async () => {
  const pages = [full(1), [folder('F1.99'), folder('INBOX')]];
  const { folders, complete } = await foldersOf((page) => pages[page - 1] ?? [], 102);
  expect(folders).toHaveLength(101);
  expect(complete).toBe(false);
});

test('pages that bring nothing new end a listing, whatever it counts', async () => {
  const { complete, problem, requests } = await foldersOf(() => full(1), Number.MAX_SAFE_INTEGER);
  expect(complete).toBe(false);
  expect(problem).toMatchObject({ code: 'origin.paging', facts: { operation: 'listFolders' } });
  expect(requests).toBe(4);
});

test('a listing without end is cut off, and is not complete', async () => {
  const { folders, complete, problem } = await foldersOf(full, Number.MAX_SAFE_INTEGER);
  expect(folders).toHaveLength(20_001);
  expect(complete).toBe(false);
  expect(problem).toMatchObject({ code: 'origin.too-large', facts: { what: 'folders' } });
});

test('all pages of an honest listing are complete', async () => {
  const { folders, complete } = await foldersOf(full, 300);
  expect(folders).toHaveLength(300);
  expect(complete).toBe(true);
});

test('half a surrogate pair in a name is replaced: two folders that differ in nothing else are one', async () => {
  const odd = [folder('a\ud800'), folder('a\udfff'), folder('a\u{1f600}')];
  const { folders, complete } = await foldersOf(() => odd, 3);
  expect(folders.map(({ path }) => path)).toEqual(['a\ufffd', 'a\u{1f600}']);
  expect(complete).toBe(false);
});

test('a folder without a path is left out and counted, and the others are there', async () => {
  const odd = [folder('INBOX'), folder(''), folder('INBOX.Sent')];
  const { folders, withoutPath } = await foldersOf(() => odd, 3);
  expect(folders.map(({ path }) => path)).toEqual(['INBOX', 'INBOX.Sent']);
  expect(withoutPath).toBe(1);
});
