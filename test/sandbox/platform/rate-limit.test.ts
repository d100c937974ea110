import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Answer } from '../client.ts';
import { P, type Platform, platform } from './platform.ts';

let p: Platform;
beforeEach(async () => {
  p = await platform();
});
afterEach(() => p.close());

describe('the rate limit', () => {
  const limits = ({ headers }: Answer) => [
    headers['x-ratelimit-limit'],
    headers['x-ratelimit-remaining'],
    headers['retry-after'],
  ];

  test('stands on every answer, whatever it is', async () => {
    const id = await p.created();
    const { sandbox } = p.served;
    sandbox.fault({ kind: 'status', status: 500, operation: 'platform.getWebhook', times: 1 });
    sandbox.fault({ kind: 'broken-json', operation: 'platform.listMailboxes', times: 1 });
    const answers = [
      await p.call(`GET ${P}/webhooks/${id}`),
      await p.call(`GET ${P}/webhooks/${id}`),
      await p.call(`GET ${P}/orders/${p.orderId}/mailboxes`),
      await p.call(`GET ${P}/webhooks/${id}`, { token: null }),
      await p.call(`GET ${P}/webhooks/none`),
      await p.call(`PUT ${P}/webhooks/none`),
      await p.call(`GET ${P}/none`),
      await p.call(`PATCH ${P}/webhooks/${id}`, { body: { status: 'on' } }),
      await p.call(`PATCH ${P}/webhooks/${id}`, { raw: '{' }),
      await p.call(`DELETE ${P}/webhooks/${id}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([
      500, 200, 200, 401, 404, 404, 404, 422, 400, 200,
    ]);
    answers.forEach((answer, index) => {
      expect(limits(answer)).toEqual(['90', String(88 - index), '0']);
      expect(answer.headers['x-correlation-id']).toMatch(/^[0-9a-f-]{36}$/);
    });
    expect(new Set(answers.map(({ headers }) => headers['x-correlation-id'])).size).toBe(10);
  });

  test('is 90 a minute, then 429 until a request is a minute old', async () => {
    for (let n = 0; n < 89; n += 1) expect((await p.call(`GET ${P}/x`)).status).toBe(404);
    const last = await p.call(`GET ${P}/x`);
    expect([last.status, ...limits(last)]).toEqual([404, '90', '0', '60']);
    p.pass(20_000);
    const refused = await p.call(`GET ${P}/orders/${p.orderId}/mailboxes`);
    expect([refused.status, ...limits(refused)]).toEqual([429, '90', '0', '40']);
    expect(refused.json).toEqual({
      message: expect.any(String),
      correlation_id: expect.any(String),
    });
    p.pass(40_000);
    expect((await p.call(`GET ${P}/orders/${p.orderId}/mailboxes`)).status).toBe(200);
    // The mailbox surface has a limit of its own.
    expect((await p.served.call('GET /api/v1/me')).status).toBe(200);
  });

  test('blocks an address that continues in spite of refusals', async () => {
    await p.close();
    p = await platform({
      platformRequestsPerMinute: 2,
      platformBlock: { refusals: 3, forMs: 300_000 },
    });
    const asked: unknown[] = [];
    for (let n = 0; n < 6; n += 1) {
      const { status, headers } = await p.call(`GET ${P}/x`);
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
    p.pass(299_000);
    expect(limits(await p.call(`GET ${P}/x`))).toEqual(['2', '0', '1']);
    p.pass(1000);
    expect((await p.call(`GET ${P}/x`)).status).toBe(404);
  });

  test('can be switched off', async () => {
    await p.close();
    p = await platform({ platformRequestsPerMinute: null });
    for (let n = 0; n < 200; n += 1) expect((await p.call(`GET ${P}/x`)).status).toBe(404);
  });
});
