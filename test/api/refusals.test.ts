import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { OriginRefusal } from '../../src/service/errors.ts';
import { fixture } from '../wire/sample.ts';
import { type Answer, envelope, json, QUOTA, raw, startOrigin } from './local-origin.ts';
import { failureOf, mailboxClient, serving, servingPlatform } from './test-clients.ts';

const fine = json(200, QUOTA);

describe('a refused token', () => {
  const byToken =
    (good: string): Answer =>
    (request, response) =>
      (request.headers.authorization === `Bearer ${good}` ? fine : envelope(401, 'ERR_UNAUTH'))(
        request,
        response,
      );

  test('is read again, and the request goes with the new one', async () => {
    const origin = await startOrigin(byToken('new'));
    const tokens = ['old', 'new'];
    let reads = 0;
    const { client } = mailboxClient(origin.url, {
      token: () => {
        reads += 1;
        return tokens.shift() ?? 'new';
      },
    });
    await client.getQuota('AC1');
    await client.getQuota('AC1');
    expect(reads).toBe(2);
    expect(origin.seen.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer old',
      'Bearer new',
      'Bearer new',
    ]);
  });

  test('that is still the same ends at once, as a failure of the account', async () => {
    const { origin, client } = await serving(byToken('another'));
    const error = await failureOf(client.getQuota('AC1'));
    expect(error).toMatchObject({ family: 'auth', code: 'auth.refused', retryable: false });
    expect(error.facts).toEqual({ operation: 'getQuota', host: new URL(origin.url).host });
    expect(origin.seen).toHaveLength(1);
  });

  test('that was replaced by another refused one is read only once more', async () => {
    const origin = await startOrigin(byToken('never'));
    let reads = 0;
    const { client } = mailboxClient(origin.url, {
      token: async () => {
        reads += 1;
        return `token-${reads}`;
      },
    });
    expect((await failureOf(client.getQuota('AC1'))).code).toBe('auth.refused');
    expect([reads, origin.seen.length]).toEqual([2, 2]);
  });

  test('is read once for many requests that are refused together', async () => {
    const origin = await startOrigin(byToken('good'));
    let reads = 0;
    const { client } = mailboxClient(origin.url, {
      token: () => {
        reads += 1;
        return reads === 1 ? 'stale' : 'good';
      },
    });
    await Promise.all(Array.from({ length: 6 }, () => client.getQuota('AC1')));
    expect(reads).toBe(2);
  });

  test.each(['', 'two words', 'line\nbreak', 'ümlaut'])(
    'a token no header can carry is not sent: %j',
    async (token) => {
      const { origin, client } = await serving(fine, { token });
      const error = await failureOf(client.getQuota('AC1'));
      expect(error).toMatchObject({ family: 'config', code: 'token-malformed' });
      expect(origin.seen).toEqual([]);
    },
  );

  test('what the reader of the token throws comes through', async () => {
    const { client } = mailboxClient('http://127.0.0.1:1', {
      token: () => Promise.reject(new Error('no such file')),
    });
    await expect(client.getQuota('AC1')).rejects.toThrow('no such file');
  });
});

test('403 and a missing mailbox have errors of their own', async () => {
  const { origin, client } = await serving([
    envelope(403, 'ERR_FORBIDDEN'),
    envelope(404, 'ERR_MAILBOX_NOT_FOUND'),
    envelope(404, 'ERR_FOLDER_NOT_FOUND'),
  ]);
  const errors = [];
  for (let i = 0; i < 3; i += 1) errors.push(await failureOf(client.getQuota('AC1')));
  expect(errors.map(({ family, code }) => [family, code])).toEqual([
    ['origin', 'origin.forbidden'],
    ['origin', 'origin.mailbox-not-found'],
    ['origin', 'origin.status'],
  ]);
  expect(origin.seen).toHaveLength(3);
});

describe('a web page in place of an error', () => {
  const page = '<html><head><title>Hotel WiFi</title></head></html>';
  test.each([401, 403, 404])(
    '%i is no word of the service about token or mailbox',
    async (status) => {
      const { client } = await serving(raw(status, page, { 'content-type': 'text/html' }));
      const error = await failureOf(client.getQuota('AC1'));
      expect(error).toMatchObject({ family: 'origin', code: 'origin.not-json' });
      expect(error.facts).toMatchObject({ what: 'web-page', status });
    },
  );
});

describe('error envelopes', () => {
  const envelopes = z
    .object({
      mailbox: z.array(
        z.object({ status: z.number(), body: z.looseObject({ error: z.string() }) }),
      ),
      platform: z.array(
        z.object({ status: z.number(), body: z.looseObject({ message: z.string() }) }),
      ),
    })
    .parse(fixture('errors'));

  test.each(envelopes.mailbox)('mailbox surface, $status', async ({ status, body }) => {
    const { client } = await serving(json(status, body), { retries: { attempts: 1, budgetMs: 0 } });
    const error = await failureOf(client.getQuota('AC1'));
    expect(error).toBeInstanceOf(OriginRefusal);
    if (!(error instanceof OriginRefusal)) return;
    expect(error.status).toBe(status);
    expect(error.answer).toEqual({
      code: body.code,
      message: body.error,
      params: body.params ?? {},
      errors: {},
      correlationId: null,
    });
    if (status !== 401) expect(error.facts).toMatchObject({ code: body.code });
    expect(JSON.stringify({ ...error })).not.toContain(body.error);
    expect(error.message).not.toContain(body.error);
  });

  test.each(envelopes.platform)('platform surface, $status', async ({ status, body }) => {
    const { client } = await servingPlatform(json(status, body));
    const error = await failureOf(client.getWebhook('w'));
    if (!(error instanceof OriginRefusal)) throw error;
    expect(error.answer).toEqual({
      code: '',
      message: body.message,
      params: {},
      errors: body.errors ?? {},
      correlationId: body.correlation_id,
    });
  });

  test.each([
    ['no body', ''],
    ['no JSON', 'oops'],
    ['an array', '[]'],
    ['a code that is a sentence', '{"error":"x","code":"Your password is hunter2"}'],
    ['fields of other types', '{"error":1,"code":{},"params":[]}'],
  ])('%s is still an error of its status', async (_name, body) => {
    const { origin, client } = await serving(
      raw(422, body, { 'content-type': 'application/json' }),
    );
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.facts).toEqual({
      operation: 'getQuota',
      host: new URL(origin.url).host,
      status: 422,
      code: '',
    });
  });

  test('a body without end is read no further than it matters', async () => {
    let written = 0;
    const { client } = await serving((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' });
      const pour = () => {
        if (response.destroyed) return;
        written += 65_536;
        response.write(' '.repeat(65_536), pour);
      };
      pour();
    });
    expect((await failureOf(client.getQuota('AC1'))).facts).toMatchObject({ status: 404 });
    expect(written).toBeLessThan(64 * 1024 * 1024);
  });
});

test('a redirect is not followed, and the token goes nowhere', async () => {
  const elsewhere = await startOrigin(fine);
  const to = `${elsewhere.url}/take?all=1`;
  for (const status of [301, 302, 303, 307, 308]) {
    const { origin, client } = await serving(raw(status, '', { location: to }));
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.redirected');
    expect(error.facts).toMatchObject({ status, to: elsewhere.url });
    expect(origin.seen).toHaveLength(1);
  }
  expect(elsewhere.seen).toEqual([]);
});

describe('202', () => {
  test('is returned as accepted on the platform surface, and never sent again', async () => {
    const { origin, client } = await servingPlatform(json(202, { message: 'in progress' }));
    const answer = await client.deleteWebhook('w');
    expect(answer).toMatchObject({ body: { message: 'in progress' } });
    expect(answer.constructor.name).toBe('Accepted');
    expect(origin.seen).toHaveLength(1);
  });

  test('needs no body', async () => {
    const { client } = await servingPlatform(raw(202, ''));
    expect(await client.updateWebhook('w', { status: 'paused' })).toEqual({ body: undefined });
  });
});
