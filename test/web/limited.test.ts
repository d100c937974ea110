import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { saveSearch } from '../../src/catalog/saved-searches.ts';
import { mailboxKey } from '../../src/core/state.ts';
import { importedMailbox } from '../../src/mail/identity.ts';
import { mailkeep } from '../cli/child.ts';
import { archiveOf, idOf, letter, Served, withoutHaste } from './served.ts';

/*
 * A browser that may read some mailboxes is answered as if the archive held no others. Whatever is theirs has a word in
 * it that no answer may hold.
 */

const SECRET = /zebra|okapi|theirs/i;
const ours = letter('Ferry', 'When does it leave?');
const reply = letter('Re: Ferry', 'At noon.', ['In-Reply-To: <ferry@example.org>']);
/** In both mailboxes. */
const shared = letter('Minutes', 'Known to both.');
/** In the same conversation as ours. */
const theirs = letter('Re: Ferry zebra', 'The okapi sails.', [
  'In-Reply-To: <ferry@example.org>',
]).replace('Anna Berg <anna@', 'Zebra <zebra@');
const withFile = [
  'Message-ID: <zebra-file@example.org>',
  'Date: Tue, 03 Feb 2026 10:00:00 +0000',
  'From: zebra@example.org',
  'Subject: okapi',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="b"',
  '',
  '--b',
  'Content-Type: text/html',
  '',
  '<p>zebra</p>',
  '--b',
  'Content-Type: text/plain; name="okapi.txt"',
  'Content-Disposition: attachment; filename="okapi.txt"',
  '',
  'zebra',
  '--b--',
  '',
].join('\r\n');
/** Of the attachment that is theirs. */
const fileHash = createHash('sha256').update('zebra').digest('hex');

const served = new Served();
const alone = new Served();
let dataDir: string;
let limited: string;
let only: string;

async function alsoImport(mailbox: string, letters: readonly string[]): Promise<void> {
  const folder = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-web-')), 'Zebra');
  mkdirSync(folder);
  for (const [i, source] of letters.entries()) writeFileSync(path.join(folder, `${i}.eml`), source);
  const args = ['import', '--data', dataDir, '--mailbox', mailbox, '--quiet', path.dirname(folder)];
  const { code, stderr } = await mailkeep(args);
  expect([code, stderr]).toEqual([0, '']);
}

beforeAll(async () => {
  dataDir = await archiveOf({ ours, reply, shared });
  await alone.start(await archiveOf({ ours, reply, shared }));
  await alsoImport('theirs', [theirs, withFile, shared]);
  saveSearch(dataDir, 'zebra-search', 'mailbox:theirs', () => {});
  await served.start(dataDir);
  limited = await served.signIn([mailboxKey(importedMailbox('imported'))]);
  only = await alone.signIn();
});
afterAll(async () => {
  await served.close();
  await alone.close();
});
beforeEach(() => {
  withoutHaste();
  expect(served.errors).toEqual([]);
});

const QUERIES = [
  ...['', 'ferry', 'zebra', 'okapi', 'in:Zebra', 'in:zebr', 'mailbox:theirs', 'mailbox:their'],
  ...['mailbox:imported', 'from:zebra@example.org', 'from:<zebra@example.org>', 'is:deleted'],
  ...['@zebra-search', '@zebra', 'account:import.invalid', '-in:Zebra', 'asof:2030-01-01'],
  ...[
    'asof:2030-01-01 okapi',
    `thread:${idOf(theirs)}`,
    `id:${idOf(theirs)}`,
    `thread:${idOf(ours)}`,
  ],
  ...['has:attachment', 'mime:text/plain', 'larger:1', 'zebr*', 'okapi OR ferry', 'known'],
];
/** What is typed in the query box, up to the caret. */
const COMPLETED = [
  ...['from:', 'from:z', 'from:a', 'to:', 'contact:', 'in:', 'in:z', 'mailbox:', 'mailbox:t'],
  ...['account:', '@', '@z', 'mime:', 'mime:text', 'date:', 'is:', 'has:', 'asof:', 'ze'],
];
const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'];

const PAGES = ['/mail', '/api/page/mail', '/files', '/api/page/files'];

/** Every address that shows something of the archive. */
function* addresses(): Generator<string> {
  for (const query of QUERIES) {
    const q = encodeURIComponent(query);
    for (const page of [...PAGES, '/api/rows', '/api/counts', '/api/frame']) yield `${page}?q=${q}`;
    yield `/api/timeline?q=${q}&tz=UTC`;
    yield `/api/position?q=${q}&at=${idOf(shared)}`;
    yield `/api/complete?q=${q}&at=${query.length}`;
    yield `/mail?q=${q}&sort=oldest&after=${idOf(theirs)}`;
    yield `/api/rows?q=${q}&after=${idOf(withFile).slice(0, 8)}`;
  }
  for (const typed of COMPLETED)
    yield `/api/complete?q=${encodeURIComponent(typed)}&at=${typed.length}`;
  for (const name of ['changes', 'changes/next', 'changes/previous', 'moment'])
    yield `/api/${name}?than=1&at=${Date.UTC(2030, 0, 1)}`;
  for (const page of ['/files', '/api/page/files'])
    for (const more of [`a=${fileHash}`, 'type=documents&inline=1']) yield `${page}?${more}`;
  yield `/files/${fileHash}/preview`;
  for (const page of ['/health', '/api/page/health', '/you', '/api/session']) yield page;
  for (const source of [theirs, withFile, shared, ours])
    for (const id of [idOf(source), idOf(source).slice(0, 8)]) {
      for (const view of VIEWS)
        for (const page of [
          `/m/${id}?`,
          `/api/page/m/${id}?`,
          `/mail?m=${id}&`,
          `/api/message?m=${id}&`,
        ])
          yield `${page}view=${view}`;
      for (const part of ['html', 'source', 'attachments/1', 'attachments/all.zip'])
        yield `/m/${id}/${part}`;
    }
}

test('no address shows a limited sign-in anything of other mailboxes', async () => {
  let asked = 0;
  for (const address of addresses()) {
    const { status, text, headers } = await served.ask(address, { headers: served.own(limited) });
    expect(status, address).toBeLessThan(500);
    // What was asked for stands in the answer.
    const typed = new URL(address, 'http://x').searchParams.get('q') ?? '';
    const said = text
      .replaceAll(encodeURIComponent(typed).replaceAll('%20', '+'), '')
      .replaceAll(encodeURIComponent(typed), '')
      .replaceAll(typed === '' ? '\0' : typed, '')
      .replaceAll(typed === '' ? '\0' : JSON.stringify(typed).slice(1, -1), '')
      .replace(/(?:zebra-search|Zebra|zebra|zebr|theirs|their|okapi)(?=[^<>]*<\/u>)/g, '');
    if (!SECRET.test(typed)) expect(said, address).not.toMatch(SECRET);
    else
      expect(said, address).not.toMatch(
        /okapi sails|zebra-file|okapi\.txt|Re: Ferry zebra|>Zebra</i,
      );
    expect(JSON.stringify(headers), address).not.toMatch(SECRET);
    asked += 1;
  }
  expect(asked).toBeGreaterThan(300);
});

test('a message outside is not found, by its id or the beginning of it', async () => {
  for (const source of [theirs, withFile])
    for (const id of [idOf(source), idOf(source).slice(0, 8)])
      for (const part of ['', '/html', '/source', '/attachments/1', '/attachments/all.zip']) {
        const answer = await served.ask(`/m/${id}${part}`, { headers: served.own(limited) });
        expect(answer.status, `${id}${part}`).toBe(404);
      }
  const own = await served.ask(`/m/${idOf(shared)}/source`, { headers: served.own(limited) });
  expect(own.bytes.toString()).toBe(shared);
});

test('each number is that of an archive without the others', async () => {
  const data = async (from: Served, cookie: string, address: string): Promise<unknown> =>
    JSON.parse((await from.ask(address, { headers: from.own(cookie) })).text);
  /** Times and numbers of commits, and where the archive is, differ between two archives; see limited-equal.test.ts. */
  const plain = (value: unknown): unknown =>
    JSON.parse(
      JSON.stringify(value, (name, inner: unknown) =>
        /^(?:docid|commit|writtenAt|firstSeen|dataDir|time|logBytes|catalogBytes|verification|whole|now|hash)$/.test(
          name,
        )
          ? undefined
          : inner,
      ),
    );
  for (const query of QUERIES.filter((text) => !text.startsWith('@'))) {
    const q = encodeURIComponent(query);
    for (const page of [
      'page/mail',
      'page/files',
      'rows',
      'counts',
      'frame',
      'timeline',
      'complete',
    ]) {
      const address = `/api/${page}?q=${q}`;
      const [mine, lone] = [
        await data(served, limited, address),
        await data(alone, only, address),
      ].map(plain);
      // The matters and the state of an archive as a whole are not shown.
      const text = (value: unknown) =>
        JSON.stringify(value).replace(/"issues":\d+,"state":\{[^}]*\}/, '');
      expect(text(mine), address).toBe(text(lone));
    }
  }
  for (const typed of COMPLETED.filter((text) => !text.startsWith('mime:'))) {
    const address = `/api/complete?q=${encodeURIComponent(typed)}&at=${typed.length}`;
    const answers = [await data(served, limited, address), await data(alone, only, address)];
    expect(plain(answers[0]), address).toEqual(plain(answers[1]));
  }
  const all = '/api/changes?columns=1&from=0';
  expect(await data(served, limited, all)).toMatchObject({
    data: { columns: [{ came: 3, ended: 0 }] },
  });
  for (const source of [ours, reply, shared])
    for (const view of VIEWS) {
      const address = `/api/message?m=${idOf(source)}&view=${view}`;
      const answers = [await data(served, limited, address), await data(alone, only, address)];
      expect(plain(answers[0]), address).toEqual(plain(answers[1]));
    }
});

test('a conversation has the number of those messages that may be read', async () => {
  const sizeOf = async (cookie: string, query: string): Promise<unknown> => {
    const address = `/api/rows?q=${encodeURIComponent(query)}`;
    const { text } = await served.ask(address, { headers: served.own(cookie) });
    return JSON.parse(text).data.hits[0].conversation;
  };
  const whole = await served.signIn();
  expect(await sizeOf(whole, `id:${idOf(ours)}`)).toBe(3);
  expect(await sizeOf(limited, `id:${idOf(ours)}`)).toBe(2);
  expect(await sizeOf(limited, `id:${idOf(shared)}`)).toBeUndefined();
});

test('a sign-in whose mailboxes are gone sees nothing, and pages that show all mailboxes are refused', async () => {
  const nobody = await served.signIn(['["import.invalid","nobody"]']);
  const counts = await served.ask('/api/counts?q=', { headers: served.own(nobody) });
  expect(JSON.parse(counts.text)).toMatchObject({ data: { all: { count: 0 } } });
  expect((await served.ask(`/m/${idOf(ours)}`, { headers: { cookie: nobody } })).status).toBe(404);
  for (const address of ['/health/runs', '/health/retention', '/api/unknown'])
    expect((await served.ask(address, { headers: served.own(limited) })).status).toBe(403);
});
