import { beforeEach, expect, test } from 'vitest';
import { originError } from '../../../src/service/errors.ts';
import { apiOrigin } from '../../../src/sync/api-origin.ts';
import type { UsageListing } from '../../../src/sync/ports.ts';
import { json, startOrigin } from '../../api/local-origin.ts';
import { mailboxClient } from '../../api/test-clients.ts';
import { ModelFolder, ModelOrigin, mail } from '../model-origin.ts';
import { archive, eachWithItsOwn, HOUR, policy } from '../one-mailbox.ts';

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

eachWithItsOwn();

/** An origin with three mailboxes, and a listing of their order. */
class ListedOrigin extends ModelOrigin {
  listings = 0;
  /** Mailboxes that are refused by name. */
  readonly refused = new Set<string>();
  answer: () => UsageListing = () => ({ pages: 1, complete: true, mailboxes: [] });

  usages = (): Promise<UsageListing> => {
    this.listings += 1;
    return Promise.resolve().then(this.answer);
  };

  override folders(mailbox: string): ReturnType<ModelOrigin['folders']> {
    if (!this.refused.has(mailbox)) return super.folders(mailbox);
    const at = { operation: 'listFolders', host: 'mail.example.org', status: 403, code: '' };
    return Promise.reject(originError('origin.forbidden', at));
  }
}

let listed: ListedOrigin;
beforeEach(() => {
  listed = new ListedOrigin();
  for (const name of ['ada', 'ben', 'cem']) {
    const inbox = new ModelFolder('INBOX');
    for (let n = 0; n < 5; n += 1) inbox.deliver(mail(`${name} ${n}`), { flags: ['\\Seen'] });
    listed.mailbox(name, `${name}@example.org`, [inbox]);
  }
});

const usageOf = (name: string, messages: number, suspended = false) => ({
  address: `${name}@example.org`,
  suspended,
  countedAt: archive.clock.now(),
  resources: [{ name: 'MESSAGE', usage: messages, limit: 10 }],
});

test('one listing is asked for where there would be a request for each quota', async () => {
  listed.answer = () => ({
    pages: 1,
    complete: true,
    mailboxes: ['ada', 'ben', 'cem'].map((n) => usageOf(n, 5)),
  });
  await archive.sync(listed);
  await archive.sync(listed);
  expect([listed.listings, listed.count('quota')]).toEqual([1, 0]);
  archive.clock.advance(25 * HOUR);
  await archive.sync(listed);
  expect([listed.listings, listed.count('quota')]).toEqual([2, 0]);
});

test('one mailbox is asked by itself', async () => {
  listed.boxes.delete('ben');
  listed.boxes.delete('cem');
  await archive.sync(listed);
  expect([listed.listings, listed.count('quota')]).toEqual([0, 1]);
});

test('a listing that fails costs a try an hour and nothing else', async () => {
  listed.answer = () => {
    throw originError('auth.refused', { operation: 'platform.listMailboxes', host: 'h' });
  };
  const { failures, certificates } = await archive.sync(listed);
  expect([failures, certificates.every(({ complete }) => complete)]).toEqual([[], true]);
  expect(listed.count('quota')).toBe(3);
  archive.clock.advance(25 * HOUR);
  await archive.sync(listed);
  expect([listed.listings, listed.count('quota')]).toEqual([2, 6]);
});

test('a mailbox that is refused and listed as suspended is named so, and continues when it is back', async () => {
  listed.answer = () => ({
    pages: 1,
    complete: true,
    mailboxes: ['ada', 'ben', 'cem'].map((name) => usageOf(name, 5, name === 'ben')),
  });
  let refused = true;
  let asked = 0;
  listed.before = ({ operation }) => {
    if (operation !== 'folders') return;
    asked += 1;
    if (refused && asked % 3 === 2) {
      throw originError('origin.forbidden', {
        operation: 'listFolders',
        host: 'mail.example.org',
        status: 403,
        code: '',
      });
    }
  };
  const { failures, certificates } = await archive.sync(listed);
  expect(failures).toMatchObject([
    {
      code: 'sync.mailbox-suspended',
      mailbox: 'ben@example.org',
      facts: { since: new Date(archive.clock.now()).toISOString() },
    },
  ]);
  expect(certificates.map(({ mailbox }) => mailbox)).toEqual([
    'ada@example.org',
    'cem@example.org',
  ]);
  // The list still says so, and is not believed: the mailbox answers.
  refused = false;
  const back = await archive.sync(listed);
  expect(back.failures).toEqual([]);
  expect(back.mailboxes.find(({ address }) => address === 'ben@example.org')?.added).toBe(5);
  // From now on another refusal is another matter.
  refused = true;
  listed.answer = () => ({
    pages: 1,
    complete: true,
    mailboxes: ['ada', 'cem'].map((name) => usageOf(name, 5)),
  });
  const gone = await archive.sync(listed);
  expect(gone.failures).toMatchObject([{ code: 'origin.forbidden', mailbox: 'ben@example.org' }]);
});

test('a suspension is forgotten once the list or the account does not have the mailbox any more', async () => {
  const listing = (names: readonly string[]): UsageListing => ({
    pages: 1,
    complete: true,
    mailboxes: names.map((name) => usageOf(name, 5, name === 'ben')),
  });
  const codes = async (): Promise<string[]> =>
    (await archive.sync(listed)).failures.map(({ code }) => code);
  listed.refused.add('ben');
  listed.answer = () => listing(['ada', 'ben', 'cem']);
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  archive.clock.advance(25 * HOUR);
  listed.answer = () => listing(['ada', 'cem']);
  expect(await codes()).toEqual(['origin.forbidden']);

  archive.clock.advance(25 * HOUR);
  listed.answer = () => listing(['ada', 'ben', 'cem']);
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  const ben = listed.boxes.get('ben');
  if (ben === undefined) throw new Error('no such mailbox');
  listed.boxes.delete('ben');
  expect(await codes()).toEqual(['sync.mailbox-unreachable']);
  listed.boxes.set('ben', ben);
  expect(await codes()).toEqual(['origin.forbidden']);

  archive.clock.advance(25 * HOUR);
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  // A list of which only the beginning was read does not say that the mailbox is gone from it.
  archive.clock.advance(25 * HOUR);
  listed.answer = () => ({ ...listing(['ada', 'cem']), pages: 900, complete: false });
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  expect(listed.listings).toBe(5);
});

test('a mailbox that is suspended later in the day is named after one more look at the list', async () => {
  let suspended = false;
  listed.answer = () => ({
    pages: 1,
    complete: true,
    mailboxes: ['ada', 'ben', 'cem'].map((name) => usageOf(name, 5, suspended && name === 'cem')),
  });
  await archive.sync(listed);
  suspended = true;
  let asked = 0;
  listed.before = ({ operation }) => {
    if (operation === 'folders') asked += 1;
    if (operation === 'folders' && asked % 3 === 0) {
      throw originError('origin.forbidden', {
        operation: 'listFolders',
        host: 'mail.example.org',
        status: 403,
        code: '',
      });
    }
  };
  const codes = async (): Promise<string[]> =>
    (await archive.sync(listed)).failures.map(({ code }) => code);
  expect(await codes()).toEqual(['origin.forbidden']);
  archive.clock.advance(HOUR);
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  expect(await codes()).toEqual(['sync.mailbox-suspended']);
  expect([listed.listings, listed.count('quota')]).toEqual([2, 0]);
});

test('a listing that is wrong ends nothing, hides nothing and proves nothing', async () => {
  await archive.sync(listed);
  const before = await archive.places();
  const lies = [
    () => ({ pages: 1, complete: true, mailboxes: [] }),
    () => ({
      pages: 1,
      complete: true,
      mailboxes: ['ada', 'ben', 'cem'].map((n) => usageOf(n, 0, true)),
    }),
    () => ({ pages: 900, complete: false, mailboxes: [usageOf('ada', 1_000_000)] }),
  ];
  for (const lie of lies) {
    listed.answer = lie;
    archive.clock.advance(25 * HOUR);
    const quiet = await archive.sync(listed, { policy });
    expect(quiet.failures).toEqual([]);
    expect(quiet.mailboxes.map(({ ended, folders }) => [ended, folders])).toEqual(
      Array.from({ length: 3 }, () => [0, 1]),
    );
    expect(quiet.certificates.map(({ originTotal, stored }) => [originTotal, stored])).toEqual(
      Array.from({ length: 3 }, () => [5, 5]),
    );
  }
  expect(await archive.places()).toEqual(before);
  const inbox = listed.boxes.get('ben')?.folders.get('INBOX');
  inbox?.deliver(mail('arrived while the listing says that nothing is there'));
  const { mailboxes } = await archive.sync(listed, { policy });
  expect(mailboxes.find(({ address }) => address === 'ben@example.org')?.added).toBe(1);
});
