import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Served, serveEmpty } from './client.ts';

/** Every operation as the interface names it, with a body it takes. Written by hand, from the interface. */
const M = '/api/v1/mailboxes/{id}';
const F = `${M}/folders/INBOX`;
const OPERATIONS: readonly (readonly [id: string, route: string, body?: unknown])[] = [
  ['getCurrentAccount', 'GET /api/v1/me'],
  ['submitFeedback', `POST ${M}/feedback`, { score: 5, message: 'Good' }],
  ['getQuota', `GET ${M}/quota`],
  ['listFolders', `GET ${M}/folders`],
  ['createFolder', `POST ${M}/folders`, { name: 'INBOX.X' }],
  ['updateFolder', `PUT ${M}/folders/INBOX.X`, { name: 'INBOX.Y' }],
  ['deleteFolder', `DELETE ${M}/folders/INBOX.Y`],
  ['listMessages', `GET ${F}/messages`],
  ['deleteAllMessages', `DELETE ${F}/messages`],
  ['searchMessages', `POST ${F}/messages/search`, {}],
  ['updateMessageFlags', `POST ${F}/messages/flags`, { uids: [1], addFlags: ['\\Seen'] }],
  ['moveMessages', `POST ${F}/messages/move`, { uids: [1], targetFolder: 'INBOX.Trash' }],
  ['deleteMessages', `POST ${F}/messages/delete`, { uids: [1] }],
  ['getMessage', `GET ${F}/messages/1`],
  ['patchMessage', `PATCH ${F}/messages/1`, { addFlags: ['\\Seen'] }],
  ['deleteMessage', `DELETE ${F}/messages/1`],
  ['getMessageSource', `GET ${F}/messages/1/source`],
  ['getMessageText', `GET ${F}/messages/1/text`],
  ['getMessageAttachment', `GET ${F}/messages/1/attachments/part-2`],
  ['moveMessage', `POST ${F}/messages/1/move`, { targetFolder: 'INBOX.Trash' }],
  ['sendEmail', `POST ${M}/send`, { to: ['a@example.net'] }],
  ['listWebhooks', `GET ${M}/webhooks`],
  [
    'createWebhook',
    `POST ${M}/webhooks`,
    { name: 'n', url: 'https://example.net/h', events: ['message.received'] },
  ],
  ['getWebhook', `GET ${M}/webhooks/w`],
  ['updateWebhook', `PATCH ${M}/webhooks/w`, { name: 'm' }],
  ['deleteWebhook', `DELETE ${M}/webhooks/w`],
  ['regenerateWebhookSecret', `POST ${M}/webhooks/w/regenerate-secret`],
  ['testWebhook', `POST ${M}/webhooks/w/test`],
];

const DECLARES_404 = new Set([
  'deleteFolder',
  'deleteAllMessages',
  'getMessage',
  'patchMessage',
  'getMessageSource',
  'getMessageText',
  'getMessageAttachment',
  'getWebhook',
  'updateWebhook',
  'deleteWebhook',
  'regenerateWebhookSecret',
  'testWebhook',
]);

let served: Served;
beforeAll(async () => {
  served = await serveEmpty({ settings: { maxBodyBytes: 20_000 } });
});
afterAll(() => served.close());

function route(template: string, id = served.sandbox.mailboxes[0]?.resourceId ?? ''): string {
  return template.replace('{id}', id);
}

function refusal(code: string): unknown {
  return { error: expect.any(String), code, params: expect.any(Object) };
}

test('there are 28 operations', () => {
  expect(OPERATIONS).toHaveLength(28);
});

describe.each(OPERATIONS.map(([id, template, body]) => ({ id, template, body })))(
  '$id',
  ({ id, template, body }) => {
    const request = body === undefined ? {} : { body };

    test.each([
      ['no token', null],
      ['an unknown token', 'nobody'],
      ['a malformed token', 'two words'],
    ])('%s is 401', async (_, token) => {
      const { status, json } = await served.call(route(template), { ...request, token });
      expect([status, json]).toEqual([401, refusal('ERR_UNAUTHORIZED')]);
    });

    test('a platform token is 401', async () => {
      const token = served.sandbox.tokens.platform;
      expect((await served.call(route(template), { ...request, token })).status).toBe(401);
    });

    test('an unknown mailbox is ERR_MAILBOX_NOT_FOUND in a declared status', async () => {
      if (id === 'getCurrentAccount') return;
      const { status, json } = await served.call(route(template, 'ACNONE'), request);
      expect([status, json]).toEqual([
        DECLARES_404.has(id) ? 404 : 403,
        refusal('ERR_MAILBOX_NOT_FOUND'),
      ]);
    });

    test('a mailbox the token may not reach is 403', async () => {
      if (id === 'getCurrentAccount') return;
      const { tokens } = served.sandbox.service;
      const token = 'narrow-token';
      const [first, second] = served.sandbox.mailboxes;
      tokens.put(token, {
        surface: 'mailbox',
        orderId: served.sandbox.service.store.mailboxes.get(first?.resourceId ?? '')?.orderId ?? '',
        mailboxes: [second?.resourceId ?? ''],
        expiresAt: null,
        revokedAt: null,
      });
      const { status, json } = await served.call(route(template), { ...request, token });
      expect([status, json]).toEqual([403, refusal('ERR_FORBIDDEN')]);
    });

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

    test.each([401, 403, 422, 429, 500, 502, 504] as const)(
      'a fault makes it %s',
      async (status) => {
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
      },
    );
  },
);

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
