import { describe, expect, test } from 'vitest';
import { eachPage } from '../../src/service/client.ts';
import { MAILBOX_OPERATIONS } from '../../src/service/mailbox-wire.ts';
import { parseBaseUrl, retryAfterOf } from '../../src/service/requests.ts';
import { type Answer, json, QUOTA, raw, startOrigin } from './local-origin.ts';
import { failureOf, mailboxClient, serving, servingPlatform } from './test-clients.ts';

describe('a base address', () => {
  test.each([
    ['https://mail.example.org', 'https://mail.example.org', 'mail.example.org', ''],
    [
      'https://mail.example.org:8443/mail/',
      'https://mail.example.org:8443',
      'mail.example.org:8443',
      '/mail',
    ],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080', '127.0.0.1:8080', ''],
    ['http://localhost', 'http://localhost', 'localhost', ''],
    ['http://[::1]:1', 'http://[::1]:1', '[::1]:1', ''],
  ])('%s', (text, origin, host, prefix) => {
    expect(parseBaseUrl(text)).toEqual({ origin, host, prefix });
  });

  test.each([
    ['mail.example.org', 'no-url'],
    ['', 'no-url'],
    ['ftp://mail.example.org', 'scheme'],
    ['https://user:secret-token@mail.example.org', 'extras'],
    ['https://mail.example.org/?token=secret-token', 'extras'],
    ['http://mail.example.org', 'insecure'],
    ['http://127.0.0.1.example.org', 'insecure'],
    ['user:secret-token@mail', 'scheme'],
  ])('%j is refused: %s', async (baseUrl, problem) => {
    const error = await failureOf(Promise.resolve().then(() => mailboxClient(baseUrl)));
    expect(error).toMatchObject({ family: 'config', code: 'base-url-invalid' });
    expect(error.facts.problem).toBe(problem);
  });

  test('of plain http beyond this machine is accepted only when configured', () => {
    expect(parseBaseUrl('http://mail.example.org', true).host).toBe('mail.example.org');
  });

  test('may have a path of its own', async () => {
    const origin = await startOrigin(json(200, QUOTA));
    await mailboxClient(`${origin.url}/mail/`).client.getQuota('AC1');
    expect(origin.seen[0]?.path).toBe('/mail/api/v1/mailboxes/AC1/quota');
  });
});

describe('a folder is one segment, whatever its name', () => {
  test.each([
    ['INBOX.Sent', 'INBOX.Sent'],
    ['A/B', 'A%2FB'],
    ['50% off?#', '50%25%20off%3F%23'],
    ['Entwürfe', 'Entw%C3%BCrfe'],
    ['a\\b\n', 'a%5Cb%0A'],
    ['...', '...'],
    ['👻', '%F0%9F%91%BB'],
  ])('%j', async (folder, segment) => {
    const origin = await startOrigin(raw(204, ''));
    await mailboxClient(origin.url).client.deleteAllMessages({ mailbox: 'AC1', folder });
    expect(origin.seen[0]?.path).toBe(`/api/v1/mailboxes/AC1/folders/${segment}/messages`);
  });

  test.each(['', '.', '..', '\ud800'])('%j cannot be asked for', async (folder) => {
    const { origin, client } = await serving(raw(204, ''));
    const error = await failureOf(client.deleteAllMessages({ mailbox: 'AC1', folder }));
    expect(error).toMatchObject({ family: 'usage', code: 'request-invalid' });
    expect(error.facts).toMatchObject({ operation: 'deleteAllMessages', field: 'folder' });
    expect(origin.seen).toEqual([]);
  });
});

test('what is out of bounds is not sent', async () => {
  const { origin, client } = await serving(raw(204, ''));
  const at = { mailbox: 'AC1', folder: 'INBOX' };
  const fields = [];
  for (const call of [
    client.getMessage({ ...at, uid: 0 }),
    client.listMessages(at, { perPage: 101 }),
    client.listMessages(at, { page: 0 }),
    client.deleteMessages(at, []),
    client.sendEmail('AC1', { subject: 'to nobody' }),
    client.sendEmail('', { to: ['a@b.example'] }),
  ]) {
    const error = await failureOf(call);
    expect(error.code).toBe('request-invalid');
    fields.push(error.facts.field);
  }
  expect(fields).toEqual(['uid', 'perPage', 'page', 'uids', 'to', 'mailboxResourceId']);
  expect(origin.seen).toEqual([]);
});

describe('pages', () => {
  /** A folder of so many messages that gives fewer a page than asked for. */
  const folderOf =
    (total: number, most: number): Answer =>
    (request, response) => {
      const url = new URL(request.path, 'http://x');
      const page = Number(url.searchParams.get('page'));
      const perPage = Math.min(most, Number(url.searchParams.get('perPage')));
      const from = (page - 1) * perPage;
      const data = Array.from({ length: Math.max(0, Math.min(perPage, total - from)) }, (_, i) => ({
        uid: from + i + 1,
      }));
      const pagination = { page, perPage, total, totalPages: Math.ceil(total / perPage) };
      void json(200, { data, pagination })(request, response);
    };
  const at = { mailbox: 'AC1', folder: 'INBOX' };

  test.each([
    [0, 100, 1],
    [100, 100, 1],
    [101, 100, 2],
    [55, 25, 3],
  ])('%i messages at %i a page are %i requests', async (total, most, requests) => {
    const { origin, client } = await serving(folderOf(total, most));
    const uids = [];
    for await (const { uid } of client.eachMessage(at, { sort: 'uid' })) uids.push(uid);
    expect(uids).toEqual(Array.from({ length: total }, (_, i) => i + 1));
    expect(origin.seen).toHaveLength(requests);
  });

  test('are asked for as they are read, not before', async () => {
    const { origin, client } = await serving(folderOf(1000, 100));
    for await (const { uid } of client.eachFound(at, {})) if (uid === 150) break;
    expect(origin.seen).toHaveLength(2);
  });

  test('continue past one that is short or empty: only the total marks the end', async () => {
    const pagination = { perPage: 2, total: 5, totalPages: 3 };
    const { client } = await serving([
      json(200, { data: [{ uid: 1 }], pagination: { page: 1, ...pagination } }),
      json(200, { data: [], pagination: { page: 2, ...pagination } }),
      json(200, { data: [{ uid: 5 }], pagination: { page: 3, perPage: 2, total: 2 } }),
    ]);
    const uids = [];
    for await (const { uid } of client.eachMessage(at)) uids.push(uid);
    expect(uids).toEqual([1, 5]);
  });

  test('of a total without end are too many', async () => {
    const total = Number.MAX_SAFE_INTEGER;
    const pages = eachPage(MAILBOX_OPERATIONS.listMessages, 'mail.example', async (page) => ({
      items: [page],
      page,
      perPage: 100,
      total,
    }));
    let asked = 0;
    const walk = async () => {
      for await (const _ of pages) asked += 1;
    };
    const error = await failureOf(walk());
    expect(error.code).toBe('origin.too-large');
    expect(error.facts).toMatchObject({ what: 'pages', limit: 100_000 });
    expect(asked).toBe(100_000);
  });

  test('of the platform surface end by its total as well', async () => {
    const { origin, client } = await servingPlatform((request, response) => {
      const page = Number(new URL(request.path, 'http://x').searchParams.get('page'));
      const all = Array.from({ length: 201 }, (_, i) => ({ id: `${i + 1}` }));
      const data = all.slice((page - 1) * 100, page * 100);
      void json(200, { data, meta: { current_page: page, per_page: 100, total: 201 } })(
        request,
        response,
      );
    });
    const ids = [];
    for await (const { id } of client.eachMailbox('OR1')) ids.push(id);
    expect(ids).toHaveLength(201);
    expect(origin.seen).toHaveLength(3);
  });

  test('without pagination are refused', async () => {
    const origin = await startOrigin(json(200, { data: [] }));
    const error = await failureOf(mailboxClient(origin.url).client.listMessages(at));
    expect(error.facts).toMatchObject({ path: 'pagination', found: 'nothing' });
  });
});

test('a subject in bytes that are no UTF-8 does not make the page unreadable', async () => {
  const body = Buffer.concat([
    Buffer.from('\ufeff{"data":{"uid":1,"subject":"caf'),
    Buffer.from([0xe9]),
    Buffer.from('"}}'),
  ]);
  const { client } = await serving(raw(200, body, { 'content-type': 'application/json' }));
  const message = await client.getMessage({ mailbox: 'AC1', folder: 'INBOX', uid: 1 });
  expect(message.subject).toBe('caf\ufffd');
});

describe('Retry-After', () => {
  const now = Date.UTC(2026, 2, 1, 12, 0, 0);
  test.each([
    ['0', 0],
    ['120', 120_000],
    ['1.5', 1500],
    ['Sun, 01 Mar 2026 12:01:00 GMT', 60_000],
    ['Sunday, 01-Mar-26 12:01:00 GMT', 60_000],
    ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
    ['', null],
    ['soon', null],
    ['-5', null],
    ['2026', 2_026_000],
    ['Sun, 99 Foo 2026', null],
    [undefined, null],
  ])('%j is %j ms', (text, ms) => {
    expect(retryAfterOf(text === undefined ? {} : { 'retry-after': text }, now)).toBe(ms);
  });
});
