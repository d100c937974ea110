import { createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { OriginRefusal } from '../../src/service/errors.ts';
import { type Answer, envelope, json, QUOTA, raw, startOrigin } from './local-origin.ts';
import { failureOf, mailboxClient, serving, servingPlatform } from './test-clients.ts';

const fine = json(200, QUOTA);
const broken: Answer = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
  response.write('{"data":', () => response.destroy());
};
const hangUp: Answer = (_request, response) => {
  response.destroy();
};
const page = '<!DOCTYPE html><html><body>Please sign in to the network</body></html>';
const portal = raw(200, page, { 'content-type': 'text/html; charset=utf-8' });

/** Failures that may pass by themselves, as a server makes them. */
const PASSING: readonly [string, Answer, string][] = [
  ['408', envelope(408, 'ERR_TIMEOUT'), 'origin.status'],
  ['500', envelope(500, 'ERR_INTERNAL'), 'origin.status'],
  ['502', raw(502, '<html>Bad gateway</html>', { 'content-type': 'text/html' }), 'origin.status'],
  ['503', envelope(503, 'ERR_MAINTENANCE'), 'origin.status'],
  ['504', envelope(504, 'ERR_TIMEOUT'), 'origin.status'],
  ['a connection that breaks before the answer', hangUp, 'origin.unreachable'],
  ['a body cut short', broken, 'origin.cut-short'],
  [
    'broken JSON',
    raw(200, '{"data": {', { 'content-type': 'application/json' }),
    'origin.not-json',
  ],
  ['a web page', portal, 'origin.not-json'],
  [
    'a web page that says it is text',
    raw(200, page, { 'content-type': 'text/plain' }),
    'origin.not-json',
  ],
  ['another type', raw(200, '{"data":{}}', { 'content-type': 'text/plain' }), 'origin.not-json'],
  ['an empty body', raw(200, '', { 'content-type': 'application/json' }), 'origin.not-json'],
];

describe('a read', () => {
  test.each(PASSING)('goes again after %s', async (_name, failing) => {
    const { origin, client, clock } = await serving([failing, failing, fine]);
    await expect(client.getQuota('AC1')).resolves.toMatchObject({ totalUsage: 1 });
    expect(origin.seen).toHaveLength(3);
    expect(clock.waits).toEqual([500, 1000]);
  });

  test.each(PASSING)('gives up after five tries with %s', async (_name, failing, code) => {
    const { origin, client, clock } = await serving(failing);
    expect((await failureOf(client.getQuota('AC1'))).code).toBe(code);
    expect(origin.seen).toHaveLength(5);
    expect(clock.waits).toEqual([500, 1000, 2000, 4000]);
  });

  test.each([400, 404, 409, 410, 422, 501])('does not go again after %i', async (status) => {
    const { origin, client } = await serving([envelope(status, 'ERR_SOME'), fine]);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.status');
    expect(error.facts).toMatchObject({ operation: 'getQuota', status, code: 'ERR_SOME' });
    expect(origin.seen).toHaveLength(1);
  });

  test('searchMessages is one, although it is a POST', async () => {
    const empty = json(200, {
      data: [],
      pagination: { page: 1, perPage: 100, total: 0, totalPages: 0 },
    });
    const { origin, client } = await serving([envelope(502, 'ERR_UPSTREAM'), empty]);
    const found = await client.searchMessages({ mailbox: 'AC1', folder: 'INBOX' }, { uid: '1:*' });
    expect(found.total).toBe(0);
    expect(origin.seen.map(({ body }) => body)).toEqual(['{"uid":"1:*"}', '{"uid":"1:*"}']);
  });

  test('waits at random below the bound', async () => {
    const { client, clock } = await serving([envelope(500, 'E'), envelope(500, 'E'), fine], {
      random: () => 0.5,
    });
    await client.getQuota('AC1');
    expect(clock.waits).toEqual([250, 500]);
  });

  test('waits as long as a 503 asks', async () => {
    const { client, clock } = await serving([envelope(503, 'E', { 'retry-after': '42' }), fine]);
    await client.getQuota('AC1');
    expect(clock.waits).toEqual([42_000]);
  });

  test('does not begin a wait that its budget does not cover', async () => {
    const { client, clock } = await serving([envelope(503, 'E', { 'retry-after': '86400' }), fine]);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.facts).toMatchObject({ status: 503 });
    expect(clock.waits).toEqual([]);
  });

  test('an answer of another shape is not asked for again, and named by its path', async () => {
    const { origin, client } = await serving([json(200, { data: { quotas: 7 } }), fine]);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.shape');
    expect(error.facts).toMatchObject({ path: 'data.quotas', found: 'number' });
    expect(origin.seen).toHaveLength(1);
  });
});

describe('a write', () => {
  const send = (url: string) => mailboxClient(url).client.sendEmail('AC1', { to: ['a@b.example'] });

  // An empty 200 is as good a success as a 204.
  const open = PASSING.filter(([name]) => name !== 'an empty body');
  test.each(open)(
    'is not sent again after %s: it may have taken effect',
    async (_name, failing, reason) => {
      const origin = await startOrigin([failing, raw(204, '')]);
      const error = await failureOf(send(origin.url));
      expect(error.code).toBe('origin.outcome-unknown');
      expect(error.facts).toMatchObject({ operation: 'sendEmail', reason });
      expect(origin.seen).toHaveLength(1);
    },
  );

  test('is sent again after a 429: it was not taken', async () => {
    const origin = await startOrigin([envelope(429, 'E', { 'retry-after': '3' }), raw(204, '')]);
    await send(origin.url);
    expect(origin.seen).toHaveLength(2);
  });

  test('is sent again when it never left', async () => {
    const { client, clock } = mailboxClient(`http://127.0.0.1:${await closedPort()}`);
    const error = await failureOf(client.sendEmail('AC1', { to: ['a@b.example'] }));
    expect(error.code).toBe('origin.unreachable');
    expect(error.facts).toMatchObject({ reason: 'ECONNREFUSED', sent: false });
    expect(clock.waits).toEqual([500, 1000, 2000, 4000]);
  });

  test.each([400, 403, 404, 409, 422])(
    '%i is an answer: it did not take effect',
    async (status) => {
      const origin = await startOrigin(envelope(status, 'ERR_NO'));
      const error = await failureOf(send(origin.url));
      expect(error).toBeInstanceOf(OriginRefusal);
      expect(error.facts).toMatchObject({ status, code: 'ERR_NO' });
      expect(origin.seen).toHaveLength(1);
    },
  );

  test('an answer that says it was done and cannot be read leaves the outcome open', async () => {
    const { client } = await serving(json(201, { data: { path: 7 } }));
    const error = await failureOf(client.createFolder('AC1', 'INBOX.x'));
    expect(error.code).toBe('origin.outcome-unknown');
    expect(error.facts).toMatchObject({ reason: 'origin.shape' });
  });
});

describe('429', () => {
  test('is waited out at the gate, for as long as it asks', async () => {
    const { client, clock } = await serving([envelope(429, 'E', { 'retry-after': '7' }), fine]);
    await client.getQuota('AC1');
    expect(clock.waits).toEqual([7000]);
  });

  test('three in a row leave the host alone for a minute, and no request goes meanwhile', async () => {
    const refusal = envelope(429, 'E', { 'retry-after': '1' });
    const { origin, client, clock } = await serving([refusal, refusal, refusal, fine]);
    await client.getQuota('AC1');
    expect(clock.waits.at(-1)).toBe(60_000);
    expect(origin.seen).toHaveLength(4);
  });

  test('without end is given up once the budget is gone, and says how long the host wants rest', async () => {
    const { origin, client } = await serving(envelope(429, 'ERR_RATE'));
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.rate-limited');
    expect(error.retryable).toBe(true);
    expect(error.facts).toMatchObject({ status: 429, code: 'ERR_RATE', waitMs: 240_000 });
    // 5 s, 10 s, 1 min, 2 min, and then the 4 minutes that the budget of 5 does not cover.
    expect(origin.seen).toHaveLength(5);
  });

  test('of feedback is a limit of its own: it is waited out, and the rate of requests stays', async () => {
    const { client, clock } = await serving([
      envelope(429, 'ERR_FEEDBACK_RATE_LIMIT'),
      raw(204, ''),
      fine,
    ]);
    await client.submitFeedback('AC1', { score: 5, message: 'x' });
    expect(clock.waits).toEqual([10_000]);
    await client.getQuota('AC1');
    expect(clock.waits).toHaveLength(1);
  });

  test('on the platform surface, nothing remaining is waited out before it is refused', async () => {
    const logs = { data: [], meta: { current_page: 1, per_page: 100, total: 0 } };
    const limit = { 'x-ratelimit-limit': '90', 'retry-after': '20' };
    const { client, clock } = await servingPlatform([
      json(200, logs, { ...limit, 'x-ratelimit-remaining': '1' }),
      json(200, logs, { ...limit, 'x-ratelimit-remaining': '0' }),
      json(200, logs, { ...limit, 'x-ratelimit-remaining': '89' }),
    ]);
    for (let i = 0; i < 3; i += 1) await client.listDeliveryLogs('OR1');
    expect(clock.waits).toEqual([20_000]);
  });
});

test('a wait between tries ends when the signal aborts', async () => {
  const stop = new AbortController();
  const reason = new Error('stopped');
  const { origin, client } = await serving(envelope(503, 'E'), {
    clock: {
      now: () => 0,
      after: () => {
        queueMicrotask(() => stop.abort(reason));
        return () => {};
      },
    },
  });
  await expect(client.getQuota('AC1', { signal: stop.signal })).rejects.toBe(reason);
  expect(origin.seen).toHaveLength(1);
});

/** A port of this machine that nothing listens on. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
