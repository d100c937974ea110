import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Served, serveEmpty } from './client.ts';
import { validRequest } from './conformance/cases.ts';
import { TABLE } from './conformance/table.ts';

const M = '/api/v1/mailboxes/{mailboxResourceId}';
const F = `${M}/folders/INBOX`;
const ROWS = TABLE.filter(({ surface }) => surface === 'mailbox');

let served: Served;
beforeAll(async () => {
  served = await serveEmpty({ settings: { maxBodyBytes: 20_000 } });
});
afterAll(() => served.close());

function route(template: string): string {
  const values: Readonly<Record<string, string | undefined>> = {
    mailboxResourceId: served.sandbox.mailboxes[0]?.resourceId,
    ...{ folder: 'INBOX', uid: '1', attachmentId: 'part-2', webhookId: 'w' },
  };
  return template.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '');
}

function refusal(code: string): unknown {
  return { error: expect.any(String), code, params: expect.any(Object) };
}

describe.each(ROWS)('$name', (row) => {
  const { name: id } = row;
  const template = `${row.method} ${row.path}`;
  const { body } = validRequest(row);
  const request = body === undefined ? {} : { body };

  test('the service counts it under its name', async () => {
    const before = served.sandbox.requests().byOperation[id] ?? 0;
    await served.call(route(template), request);
    expect(served.sandbox.requests().byOperation[id]).toBe(before + 1);
  });

  if (body !== undefined) {
    test.each([
      ['text that is no JSON', '{"a":', 'ERR_INVALID_JSON'],
      ['an array', '[]', 'ERR_INVALID_JSON'],
      ['a string', '"x"', 'ERR_INVALID_JSON'],
      ['null', 'null', 'ERR_INVALID_JSON'],
    ])('a body that is %s is 422', async (_, raw, code) => {
      const { status, json } = await served.call(route(template), { raw });
      expect([status, json]).toEqual([422, refusal(code)]);
    });

    test('a body of another type is 422', async () => {
      const { status, json } = await served.call(route(template), {
        raw: 'a=b',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
      expect([status, json]).toEqual([422, refusal('ERR_CONTENT_TYPE')]);
    });

    test('a body that is too large is 422', async () => {
      const raw = JSON.stringify({ filler: 'x'.repeat(20_000) });
      const { status, json } = await served.call(route(template), { raw });
      expect([status, json]).toEqual([422, refusal('ERR_BODY_TOO_LARGE')]);
    });
  }

  test.each([401, 403, 422, 429, 500, 502, 504] as const)('a fault makes it %s', async (status) => {
    served.sandbox.fault({ kind: 'status', operation: id, status, times: 1, retryAfter: 7 });
    const answer = await served.call(route(template), request);
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual({
      error: expect.any(String),
      code: expect.stringMatching(/^ERR_[A-Z_]+$/),
      params: { retryAfter: 7 },
    });
    expect(answer.headers['retry-after']).toBe('7');
    served.sandbox.clearFaults();
  });
});

describe('routes', () => {
  test.each([
    'GET /',
    'GET /api/v1/nothing',
    'GET /api/v2/me',
    'GET /api/v1/me/',
    'GET /api/v1/mailboxes//quota',
  ])('%s is unknown', async (unknown) => {
    const { status, json } = await served.call(unknown);
    expect([status, json]).toEqual([404, refusal('ERR_NOT_FOUND')]);
  });

  test.each([
    ['DELETE /api/v1/me', 'GET'],
    [`PATCH ${M}/folders`, 'GET, POST'],
    [`GET ${F}/messages/search`, 'POST'],
    [`GET ${F}/messages/delete`, 'POST'],
    [`POST ${F}/messages/1/source`, 'GET'],
    [`PUT ${M}/webhooks/w`, 'GET, PATCH, DELETE'],
  ])('%s is a wrong method: 404, with those that are', async (wrong, allow) => {
    const { status, json, headers } = await served.call(route(wrong));
    expect([status, json]).toEqual([404, refusal('ERR_NOT_FOUND')]);
    expect(headers.allow).toBe(allow);
  });
});

describe('tokens', () => {
  test('an expired and a revoked one are 401, and the scope of one is what getCurrentAccount shows', async () => {
    const { service, mailboxes } = served.sandbox;
    const orderId = [...service.store.mailboxes.values()][0]?.orderId ?? '';
    const now = Date.now();
    const token = {
      surface: 'mailbox',
      orderId,
      mailboxes: null,
      expiresAt: null,
      revokedAt: null,
    } as const;
    service.tokens.put('expired-one', { ...token, expiresAt: now - 1 });
    service.tokens.put('lasting-one', { ...token, expiresAt: now + 3_600_000 });
    service.tokens.put('narrow-one', { ...token, mailboxes: [mailboxes[1]?.resourceId ?? ''] });
    service.tokens.put('elsewhere-one', { ...token, orderId: 'ORELSE' });
    expect((await served.call('GET /api/v1/me', { token: 'expired-one' })).status).toBe(401);
    expect((await served.call('GET /api/v1/me', { token: 'lasting-one' })).status).toBe(200);
    expect(service.tokens.revoke('lasting-one', now)).toBe(true);
    expect((await served.call('GET /api/v1/me', { token: 'lasting-one' })).status).toBe(401);
    expect((await served.call('GET /api/v1/me', { token: 'narrow-one' })).json).toEqual({
      data: { orderResourceId: orderId, mailboxes: [mailboxes[1]] },
    });
    expect((await served.call('GET /api/v1/me', { token: 'elsewhere-one' })).json).toEqual({
      data: { orderResourceId: 'ORELSE', mailboxes: [] },
    });
    expect((await served.call('GET /api/v1/me')).json).toEqual({
      data: { orderResourceId: orderId, mailboxes },
    });
  });
});
