import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, fill, mail, type Request } from '../client.ts';
import { HOOK, P, type Platform, platform } from './platform.ts';

let p: Platform;
beforeEach(async () => {
  p = await platform();
});
afterEach(() => p.close());

describe('mailboxes', () => {
  const addresses = async (query = '') => {
    const { json } = await p.call(`GET ${P}/orders/${p.orderId}/mailboxes${query}`);
    return [...JSON.stringify(json).matchAll(/"address":"([^"]+)"/g)].map(([, address]) => address);
  };

  test('are listed with what they hold, in kilobytes', async () => {
    fill(p.served, [mail('a', `X-Fill: ${'x'.repeat(3000)}`), mail('b')]);
    const { json } = await p.call(`GET ${P}/orders/${p.orderId}/mailboxes?search=ADA@`);
    expect(json).toEqual({
      data: [
        {
          id: p.idOf(0),
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
    fill(p.served, [mail('a')]);
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
    const { service } = p.served.sandbox;
    const userId = service.orders.get(p.orderId)?.userId ?? '';
    service.orders.put({ id: 'OR_SECOND', userId });
    service.orders.put({ id: 'OR_OTHER', userId: 'US_OTHER' });
    service.store.addMailbox('second@example.org', 'OR_SECOND', 1);
    service.tokens.put('token-of-other', {
      surface: 'platform',
      userId: 'US_OTHER',
      expiresAt: null,
      revokedAt: null,
    });
    const statusOf = async (order: string, token = p.served.sandbox.tokens.platform) =>
      (await p.call(`GET ${P}/orders/${order}/mailboxes`, { token })).status;
    expect([
      await statusOf(p.orderId),
      await statusOf('OR_SECOND'),
      await statusOf('OR_OTHER'),
      await statusOf('OR_OTHER', 'token-of-other'),
      await statusOf(p.orderId, 'token-of-other'),
    ]).toEqual([200, 200, 404, 200, 404]);
    const id = await p.created();
    expect((await p.call(`GET ${P}/webhooks/${id}`, { token: 'token-of-other' })).status).toBe(404);
    expect((await p.call(`DELETE ${P}/webhooks/${id}`, { token: 'token-of-other' })).status).toBe(
      404,
    );
    expect((await p.call(`GET ${P}/webhooks/${id}`)).status).toBe(200);
  });

  test('what cannot be seen looks like what is not there', async () => {
    const { service } = p.served.sandbox;
    service.orders.put({ id: 'OR_OTHER', userId: 'US_OTHER' });
    const bare = ({ json }: Answer) => ({ ...Object(json), correlation_id: '' });
    const hidden = await p.call(`GET ${P}/orders/OR_OTHER/webhooks`);
    const absent = await p.call(`GET ${P}/orders/OR_NONE/webhooks`);
    expect(bare(hidden)).toEqual(bare(absent));
  });
});

describe('requests that cannot be processed as sent', () => {
  const create = (request: Request) => p.call(`POST ${P}/mailboxes/${p.idOf(0)}/webhooks`, request);

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

  test('too large a body is 400', async () => {
    await p.close();
    p = await platform({ maxBodyBytes: 1000 });
    const answer = await create({ body: { ...HOOK, description: 'x'.repeat(1000) } });
    expect(answer.status).toBe(400);
    expect(answer.json).toHaveProperty('correlation_id');
  });

  test('a route that is not there is 404, with or without a token; so is a wrong method, with those that are', async () => {
    expect((await p.call(`GET ${P}/nothing`)).status).toBe(404);
    expect(await p.call(`GET ${P}/nothing`, { token: null })).toMatchObject({
      status: 404,
      json: { correlation_id: expect.any(String) },
    });
    const wrong = await p.call(`PUT ${P}/webhooks/x`);
    expect(wrong.status).toBe(404);
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

test('an internal failure is a 500 that reveals nothing, and is reported', async () => {
  const { store } = p.served.sandbox.service;
  const usage = store.usage.bind(store);
  store.usage = () => {
    throw new Error('secret detail');
  };
  const answer = await p.call(`GET ${P}/orders/${p.orderId}/mailboxes`);
  store.usage = usage;
  expect(answer.status).toBe(500);
  expect(answer.bytes.toString()).not.toContain('secret detail');
  expect(p.reports).toHaveLength(1);
});

test('operations are counted under their names', async () => {
  const id = await p.created();
  await p.call(`GET ${P}/webhooks/${id}`);
  await p.call(`GET ${P}/webhooks/none`);
  await p.call(`GET ${P}/none`);
  expect(p.served.sandbox.requests().byOutcome).toEqual({
    'platform.createWebhook 201': 1,
    'platform.getWebhook 200': 1,
    'platform.getWebhook 404': 1,
    'unknown 404': 1,
  });
});
