import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ServiceSettings } from '../../../src/service/settings.ts';
import { type Answer, fill, mail, type Request, type Served, serveEmpty } from '../client.ts';

let served: Served;
let now: number;
let orderId: string;
const reports: unknown[] = [];
async function start(settings: Partial<ServiceSettings> = {}): Promise<void> {
  now = Date.UTC(2026, 0, 1);
  reports.length = 0;
  served = await serveEmpty({
    now: () => now,
    addresses: ['ada@example.org', 'office@example.org', 'Info@example.com'],
    settings,
    report: (error) => reports.push(error),
  });
  orderId = served.sandbox.service.store.mailboxes.get(idOf(0))?.orderId ?? '';
}
beforeEach(() => start());
afterEach(() => served.close());

const P = '/api/mail/v1';
const idOf = (index: number) => served.sandbox.mailboxes[index]?.resourceId ?? '';
const call = (route: string, request: Request = {}): Promise<Answer> =>
  served.call(route, { token: served.sandbox.tokens.platform, ...request });

const HOOK = { name: 'n', url: 'https://example.net/hook', events: ['message.received'] };

async function created(mailbox = idOf(0), fields: object = {}): Promise<string> {
  const answer = await call(`POST ${P}/mailboxes/${mailbox}/webhooks`, {
    body: { ...HOOK, ...fields },
  });
  expect(answer.status).toBe(201);
  return field(answer, 'id');
}

function field({ json }: Answer, name: string): string {
  const value: unknown = Object.entries(json ?? {}).find(([key]) => key === name)?.[1];
  if (typeof value !== 'string') throw new Error(`no ${name}`);
  return value;
}

describe('webhooks', () => {
  test('creating one tells everything, its secret once', async () => {
    const answer = await call(`POST ${P}/mailboxes/${idOf(0)}/webhooks`, {
      body: { ...HOOK, description: 'd' },
    });
    const shown = {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      mailbox: { id: idOf(0), address: 'ada@example.org' },
      name: 'n',
      description: 'd',
      events: ['message.received'],
      status: 'active',
      url: 'https://example.net/hook',
      created_at: '2026-01-01T00:00:00.000Z',
      updated_at: '2026-01-01T00:00:00.000Z',
    };
    expect(answer.json).toEqual({ ...shown, secret: expect.stringMatching(/^whsec_.{40,}$/) });
    const id = field(answer, 'id');
    expect((await call(`GET ${P}/webhooks/${id}`)).json).toEqual(shown);
    expect((await call(`GET ${P}/orders/${orderId}/webhooks`)).json).toEqual({
      data: [shown],
      meta: { current_page: 1, per_page: 50, total: 1 },
    });
  });

  test('are the same on both surfaces', async () => {
    const id = await created();
    const other = await served.call(`GET ${served.m}/webhooks/${id}`);
    expect(other).toMatchObject({ status: 200, json: { data: { id, name: 'n' } } });
    await served.call(`PATCH ${served.m}/webhooks/${id}`, { body: { name: 'm' } });
    expect((await call(`GET ${P}/webhooks/${id}`)).json).toMatchObject({ name: 'm' });
    expect((await call(`DELETE ${P}/webhooks/${id}`)).json).toEqual({
      message: expect.stringMatching(/./),
    });
    expect((await served.call(`GET ${served.m}/webhooks/${id}`)).status).toBe(404);
  });

  test('updating changes what is named, and only that', async () => {
    const id = await created(idOf(0), { description: 'd' });
    now += 5000;
    const answer = await call(`PATCH ${P}/webhooks/${id}`, {
      body: { status: 'paused', description: null },
    });
    expect(answer).toMatchObject({
      status: 200,
      json: {
        name: 'n',
        status: 'paused',
        description: null,
        created_at: '2026-01-01T00:00:00.000Z',
        updated_at: '2026-01-01T00:00:05.000Z',
      },
    });
    expect(answer.json).not.toHaveProperty('secret');
  });

  test('a new secret replaces the old one', async () => {
    const first = await call(`POST ${P}/mailboxes/${idOf(0)}/webhooks`, { body: HOOK });
    const again = await call(`POST ${P}/webhooks/${field(first, 'id')}/regenerate-secret`);
    expect(again.status).toBe(200);
    expect(field(again, 'secret')).not.toBe(field(first, 'secret'));
  });

  test('the list can be narrowed to a mailbox and a status, and is paged', async () => {
    const ids = [await created(idOf(0)), await created(idOf(1)), await created(idOf(0))];
    await call(`PATCH ${P}/webhooks/${ids[2]}`, { body: { status: 'disabled' } });
    const list = async (query: string) => {
      const { json } = await call(`GET ${P}/orders/${orderId}/webhooks${query}`);
      return json;
    };
    const page = (all: readonly unknown[], total: number, perPage = 50, current = 1) => ({
      data: all.map((id) => expect.objectContaining({ id })),
      meta: { current_page: current, per_page: perPage, total },
    });
    expect(await list('')).toEqual(page(ids, 3));
    expect(await list(`?mailbox_id=${idOf(0)}`)).toEqual(page([ids[0], ids[2]], 2));
    expect(await list(`?mailbox_id=${idOf(0)}&status=active`)).toEqual(page([ids[0]], 1));
    expect(await list('?mailbox_id=AC0000')).toEqual(page([], 0));
    expect(await list('?per_page=2&page=2')).toEqual(page([ids[2]], 3, 2, 2));
    expect(await list('?per_page=2&page=3')).toEqual(page([], 3, 2, 3));
  });

  test('plain http and this machine are refused where the service says so', async () => {
    await served.close();
    await start({ localWebhooks: false });
    for (const url of ['http://example.net/', 'https://127.0.0.1/']) {
      const answer = await call(`POST ${P}/mailboxes/${idOf(0)}/webhooks`, {
        body: { ...HOOK, url },
      });
      expect(answer).toMatchObject({
        status: 422,
        json: { errors: { url: [expect.stringMatching(/^The url must/)] } },
      });
    }
  });

  test('a suspended mailbox takes no new one, and its mail is out of reach', async () => {
    const { control } = served.sandbox;
    const suspend = (status: string) =>
      served.call('POST /control/standing', {
        token: control.token,
        body: { mailbox: idOf(0), status },
      });
    expect((await suspend('suspended')).status).toBe(204);
    const create = () => call(`POST ${P}/mailboxes/${idOf(0)}/webhooks`, { body: HOOK });
    expect(await create()).toMatchObject({ status: 409, json: { message: expect.any(String) } });
    expect(await served.call(`GET ${served.m}/folders`)).toMatchObject({
      status: 403,
      json: { code: 'ERR_MAILBOX_SUSPENDED' },
    });
    expect((await call(`GET ${P}/orders/${orderId}/mailboxes?search=ada`)).json).toMatchObject({
      data: [{ status: 'suspended' }],
    });
    await suspend('active');
    expect((await create()).status).toBe(201);
    expect((await served.call(`GET ${served.m}/folders`)).status).toBe(200);
  });
});

describe('mailboxes', () => {
  const addresses = async (query = '') => {
    const { json } = await call(`GET ${P}/orders/${orderId}/mailboxes${query}`);
    return [...JSON.stringify(json).matchAll(/"address":"([^"]+)"/g)].map(([, address]) => address);
  };

  test('are told with what they hold, in kilobytes', async () => {
    fill(served, [mail('a', `X-Fill: ${'x'.repeat(3000)}`), mail('b')]);
    const { json } = await call(`GET ${P}/orders/${orderId}/mailboxes?search=ADA@`);
    expect(json).toEqual({
      data: [
        {
          id: idOf(0),
          address: 'ada@example.org',
          status: 'active',
          usage: {
            storage_used: 4,
            storage_quota: 10 * 1024 * 1024,
            messages_used: 2,
            messages_quota: 2_000_000,
            synced_at: '2026-01-01T00:00:00.000Z',
          },
          created_at: '2026-01-01T00:00:00.000Z',
          updated_at: '2026-01-01T00:00:00.000Z',
        },
      ],
      meta: { current_page: 1, per_page: 50, total: 1 },
    });
  });

  test('are searched, sorted and paged', async () => {
    fill(served, [mail('a')]);
    expect(await addresses()).toEqual([
      'ada@example.org',
      'Info@example.com',
      'office@example.org',
    ]);
    expect(await addresses('?sort=-address')).toEqual([
      'office@example.org',
      'Info@example.com',
      'ada@example.org',
    ]);
    expect((await addresses('?sort=-messages_used'))[0]).toBe('ada@example.org');
    expect(await addresses('?search=EXAMPLE.ORG')).toEqual([
      'ada@example.org',
      'office@example.org',
    ]);
    expect(await addresses('?search=none')).toEqual([]);
    expect(await addresses('?per_page=2&page=2')).toEqual(['office@example.org']);
  });
});

describe('tokens', () => {
  test('see the orders of their user: all of them, and no others', async () => {
    const { service } = served.sandbox;
    const userId = service.orders.get(orderId)?.userId ?? '';
    service.orders.put({ id: 'OR_SECOND', userId });
    service.orders.put({ id: 'OR_OTHER', userId: 'US_OTHER' });
    service.store.addMailbox('second@example.org', 'OR_SECOND', 1);
    service.tokens.put('token-of-other', {
      surface: 'platform',
      userId: 'US_OTHER',
      expiresAt: null,
      revokedAt: null,
    });
    const statusOf = async (order: string, token = served.sandbox.tokens.platform) =>
      (await call(`GET ${P}/orders/${order}/mailboxes`, { token })).status;
    expect([
      await statusOf(orderId),
      await statusOf('OR_SECOND'),
      await statusOf('OR_OTHER'),
      await statusOf('OR_OTHER', 'token-of-other'),
      await statusOf(orderId, 'token-of-other'),
    ]).toEqual([200, 200, 404, 200, 404]);
    const id = await created();
    expect((await call(`GET ${P}/webhooks/${id}`, { token: 'token-of-other' })).status).toBe(404);
    expect((await call(`DELETE ${P}/webhooks/${id}`, { token: 'token-of-other' })).status).toBe(
      404,
    );
    expect((await call(`GET ${P}/webhooks/${id}`)).status).toBe(200);
  });

  test('what cannot be seen looks like what is not there', async () => {
    const { service } = served.sandbox;
    service.orders.put({ id: 'OR_OTHER', userId: 'US_OTHER' });
    const bare = ({ json }: Answer) => ({ ...Object(json), correlation_id: '' });
    const hidden = await call(`GET ${P}/orders/OR_OTHER/webhooks`);
    const absent = await call(`GET ${P}/orders/OR_NONE/webhooks`);
    expect(bare(hidden)).toEqual(bare(absent));
  });
});

describe('requests that cannot be processed as sent', () => {
  const create = (request: Request) => call(`POST ${P}/mailboxes/${idOf(0)}/webhooks`, request);

  test.each([
    ['no JSON', { raw: '{"name":' }],
    ['a list', { raw: '[]' }],
    ['null', { raw: 'null' }],
    ['a form', { raw: 'name=n', headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
  ])('%s is 400', async (_, request) => {
    const answer = await create({ headers: { 'content-type': 'application/json' }, ...request });
    expect(answer.status).toBe(400);
    expect(answer.json).toEqual({
      message: expect.stringMatching(/./),
      correlation_id: expect.any(String),
    });
  });

  test('too large a body is 413', async () => {
    await served.close();
    await start({ maxBodyBytes: 1000 });
    const answer = await create({ body: { ...HOOK, description: 'x'.repeat(1000) } });
    expect(answer.status).toBe(413);
    expect(answer.json).toHaveProperty('correlation_id');
  });

  test('a route that is not there is 404, with or without a token; a wrong method is 405', async () => {
    expect((await call(`GET ${P}/nothing`)).status).toBe(404);
    expect(await call(`GET ${P}/nothing`, { token: null })).toMatchObject({
      status: 404,
      json: { correlation_id: expect.any(String) },
    });
    const wrong = await call(`PUT ${P}/webhooks/x`);
    expect(wrong.status).toBe(405);
    expect(wrong.headers.allow).toBe('GET, PATCH, DELETE');
    expect(wrong.json).toEqual({ message: expect.any(String), correlation_id: expect.any(String) });
  });

  test('422 names every field, and its message is the first', async () => {
    const { status, json } = await create({
      body: { name: '', url: 7, status: 'on', events: ['message.sent'] },
    });
    expect(status).toBe(422);
    expect(json).toEqual({
      message: 'The name must have at least 1 characters.',
      correlation_id: expect.any(String),
      errors: {
        name: ['The name must have at least 1 characters.'],
        url: ['The url must be of type string.'],
        'events.0': ['The events.0 must be one of message.received.'],
        status: ['The status must be one of active, paused, disabled.'],
      },
    });
    expect((await create({ body: {} })).json).toMatchObject({
      message: 'The name is required.',
      errors: {
        name: ['The name is required.'],
        url: ['The url is required.'],
        events: ['The events is required.'],
      },
    });
  });
});

describe('the rate limit', () => {
  const limits = ({ headers }: Answer) => [
    headers['x-ratelimit-limit'],
    headers['x-ratelimit-remaining'],
    headers['retry-after'],
  ];

  test('stands on every answer, whatever it is', async () => {
    const id = await created();
    const { sandbox } = served;
    sandbox.fault({ kind: 'status', status: 500, operation: 'platform.getWebhook', times: 1 });
    sandbox.fault({ kind: 'broken-json', operation: 'platform.listMailboxes', times: 1 });
    const answers = [
      await call(`GET ${P}/webhooks/${id}`),
      await call(`GET ${P}/webhooks/${id}`),
      await call(`GET ${P}/orders/${orderId}/mailboxes`),
      await call(`GET ${P}/webhooks/${id}`, { token: null }),
      await call(`GET ${P}/webhooks/none`),
      await call(`PUT ${P}/webhooks/none`),
      await call(`GET ${P}/none`),
      await call(`PATCH ${P}/webhooks/${id}`, { body: { status: 'on' } }),
      await call(`PATCH ${P}/webhooks/${id}`, { raw: '{' }),
      await call(`DELETE ${P}/webhooks/${id}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([
      500, 200, 200, 401, 404, 405, 404, 422, 400, 200,
    ]);
    answers.forEach((answer, index) => {
      expect(limits(answer)).toEqual(['90', String(88 - index), '0']);
      expect(answer.headers['x-correlation-id']).toMatch(/^[0-9a-f-]{36}$/);
    });
    expect(new Set(answers.map(({ headers }) => headers['x-correlation-id'])).size).toBe(10);
  });

  test('is 90 a minute, then 429 until a request is a minute old', async () => {
    for (let n = 0; n < 89; n += 1) expect((await call(`GET ${P}/x`)).status).toBe(404);
    const last = await call(`GET ${P}/x`);
    expect([last.status, ...limits(last)]).toEqual([404, '90', '0', '60']);
    now += 20_000;
    const refused = await call(`GET ${P}/orders/${orderId}/mailboxes`);
    expect([refused.status, ...limits(refused)]).toEqual([429, '90', '0', '40']);
    expect(refused.json).toEqual({
      message: expect.any(String),
      correlation_id: expect.any(String),
    });
    now += 40_000;
    expect((await call(`GET ${P}/orders/${orderId}/mailboxes`)).status).toBe(200);
    // The mailbox surface has a limit of its own.
    expect((await served.call('GET /api/v1/me')).status).toBe(200);
  });

  test('blocks an address that goes on in spite of refusals', async () => {
    await served.close();
    await start({
      platformRequestsPerMinute: 2,
      platformBlock: { refusals: 3, forMs: 300_000 },
    });
    const asked: unknown[] = [];
    for (let n = 0; n < 6; n += 1) {
      const { status, headers } = await call(`GET ${P}/x`);
      asked.push([status, headers['retry-after']]);
    }
    expect(asked).toEqual([
      [404, '0'],
      [404, '60'],
      [429, '60'],
      [429, '60'],
      [429, '300'],
      [429, '300'],
    ]);
    now += 299_000;
    expect(limits(await call(`GET ${P}/x`))).toEqual(['2', '0', '1']);
    now += 1000;
    expect((await call(`GET ${P}/x`)).status).toBe(404);
  });

  test('can be switched off', async () => {
    await served.close();
    await start({ platformRequestsPerMinute: null });
    for (let n = 0; n < 200; n += 1) expect((await call(`GET ${P}/x`)).status).toBe(404);
  });
});

test('what fails inside is a 500 that tells nothing, and is reported', async () => {
  const { store } = served.sandbox.service;
  const usage = store.usage.bind(store);
  store.usage = () => {
    throw new Error('secret detail');
  };
  const answer = await call(`GET ${P}/orders/${orderId}/mailboxes`);
  store.usage = usage;
  expect(answer.status).toBe(500);
  expect(answer.bytes.toString()).not.toContain('secret detail');
  expect(reports).toHaveLength(1);
});

test('operations are counted under their names', async () => {
  const id = await created();
  await call(`GET ${P}/webhooks/${id}`);
  await call(`GET ${P}/webhooks/none`);
  await call(`GET ${P}/none`);
  expect(served.sandbox.requests().byOutcome).toEqual({
    'platform.createWebhook 201': 1,
    'platform.getWebhook 200': 1,
    'platform.getWebhook 404': 1,
    'unknown 404': 1,
  });
});
