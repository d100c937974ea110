import { createServer } from 'node:http';
import { createServer as createRawServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { InstantClock } from './instant-clock.ts';
import { type Answer, json, listen, QUOTA, startOrigin } from './local-origin.ts';
import { failureOf, mailboxClient, serving } from './test-clients.ts';

const ONCE = { retries: { attempts: 1 } };
const SHORT = { connect: 2000, headers: 60, idle: 60, total: 60_000 };

describe('patience', () => {
  test('ends when no answer comes', async () => {
    const { client } = await serving(() => {}, { ...ONCE, timeouts: SHORT });
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.timeout');
    expect(error.facts).toMatchObject({ phase: 'headers', afterMs: 60, sent: true });
  });

  test('ends when an answer falls silent', async () => {
    const { client } = await serving(
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"data":');
      },
      { ...ONCE, timeouts: SHORT },
    );
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.timeout');
    expect(error.facts).toMatchObject({ phase: 'idle' });
  });

  test('ends with an answer that drips for ever', async () => {
    const clock = new InstantClock();
    const origin = await startOrigin((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = () => {
        if (response.destroyed) return;
        // Ten seconds pass with each byte.
        clock.advance(10_000);
        response.write(' ', () => setImmediate(drip));
      };
      drip();
    });
    const dripping = mailboxClient(origin.url, { ...ONCE, clock });
    const error = await failureOf(dripping.client.getQuota('AC1'));
    expect(error.code).toBe('origin.timeout');
    expect(error.facts).toMatchObject({ phase: 'total' });
  });

  test('of a slow answer to a write does not mean that nothing happened', async () => {
    const { origin, client } = await serving(() => {}, { timeouts: SHORT });
    const error = await failureOf(client.deleteWebhook({ mailbox: 'AC1', webhookId: 'w' }));
    expect(error.code).toBe('origin.outcome-unknown');
    expect(error.facts).toMatchObject({ reason: 'origin.timeout', status: 0 });
    expect(origin.seen).toHaveLength(1);
  });
});

describe('ceilings', () => {
  test('hold for how deep an answer is nested', async () => {
    const deep = (levels: number) => `{"data":{"zz":${'['.repeat(levels)}${']'.repeat(levels)}}}`;
    const { client } = await serving((request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(request.path.includes('AC1') ? deep(1_000_000) : deep(50));
    }, ONCE);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.not-json');
    expect(error.facts).toMatchObject({ what: 'broken' });
    expect(await client.getQuota('AC2')).toHaveProperty('zz');
  });

  test.each([true, false])(
    'JSON of more than 32 MiB is refused, announced: %j',
    async (announced) => {
      let sent = 0;
      const { origin, client } = await serving((_request, response) => {
        const type = { 'content-type': 'application/json' };
        response.writeHead(200, announced ? { ...type, 'content-length': '40000000' } : type);
        const pour = () => {
          if (response.destroyed || sent >= 40_000_000) return;
          sent += 1_000_000;
          response.write(Buffer.alloc(1_000_000, ' '), pour);
        };
        pour();
      });
      const error = await failureOf(client.getQuota('AC1'));
      expect(error.code).toBe('origin.too-large');
      expect(error.facts).toMatchObject({ what: 'json', limit: 32 * 1024 * 1024 });
      expect(origin.seen).toHaveLength(1);
    },
  );

  test('headers of more than 64 KiB are refused', async () => {
    const { client } = await serving(json(200, QUOTA, { 'x-much': 'y'.repeat(70_000) }), ONCE);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error.code).toBe('origin.too-large');
    expect(error.facts).toMatchObject({ what: 'headers', limit: 64 * 1024 });
  });

  test('informational answers without end are refused, a few are passed over', async () => {
    const hints =
      (many: number): Answer =>
      (_request, response) => {
        for (let i = 0; i < many; i += 1) response.writeEarlyHints({ link: '</x>; rel=preload' });
        void json(200, QUOTA)(_request, response);
      };
    const few = await startOrigin(hints(3));
    await mailboxClient(few.url).client.getQuota('AC1');
    const many = await startOrigin(hints(100));
    const error = await failureOf(mailboxClient(many.url).client.getQuota('AC1'));
    expect(error.code).toBe('origin.too-large');
  });
});

describe('what is not HTTP', () => {
  test('is unreachable, and said to be no HTTP', async () => {
    const server = createRawServer((socket) => {
      socket.on('error', () => {});
      socket.end('SSH-2.0-OpenSSH_9.2\r\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const { client } = mailboxClient(`http://127.0.0.1:${port}`, ONCE);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error).toMatchObject({ family: 'origin', code: 'origin.unreachable' });
    expect(error.facts.reason).toBe('not-http');
  });

  test('a name that does not resolve is unreachable, never a refused token', async () => {
    const { client } = mailboxClient('https://nowhere.invalid', ONCE);
    const error = await failureOf(client.getQuota('AC1'));
    expect(error).toMatchObject({ family: 'origin', code: 'origin.unreachable' });
    expect(['ENOTFOUND', 'EAI_AGAIN']).toContain(error.facts.reason);
  });
});

describe('stopping', () => {
  test('breaks a request that waits for its answer, with the reason', async () => {
    const stop = new AbortController();
    const reason = new Error('stopped');
    let closed: (() => void) | undefined;
    const gone = new Promise<void>((resolve) => {
      closed = resolve;
    });
    const { client } = await serving((_request, response) => {
      response.on('close', () => closed?.());
      stop.abort(reason);
    });
    await expect(client.getQuota('AC1', { signal: stop.signal })).rejects.toBe(reason);
    await gone;
  });

  test('before it began sends nothing', async () => {
    const { origin, client } = await serving(json(200, QUOTA));
    const signal = AbortSignal.abort(new Error('over'));
    await expect(client.getQuota('AC1', { signal })).rejects.toThrow('over');
    expect(origin.seen).toEqual([]);
  });
});

test('no more connections are opened than requests may be in flight', async () => {
  const sockets = new Set<unknown>();
  let inFlight = 0;
  let most = 0;
  const server = createServer((_request, response) => {
    sockets.add(response.socket);
    inFlight += 1;
    most = Math.max(most, inFlight);
    setImmediate(() => {
      inFlight -= 1;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(QUOTA));
    });
  });
  const url = await listen(server);
  const { client } = mailboxClient(url, { concurrency: 3 });
  await Promise.all(Array.from({ length: 40 }, () => client.getQuota('AC1')));
  expect(sockets.size).toBeLessThanOrEqual(3);
  expect(most).toBeLessThanOrEqual(3);
});

test('every request that was sent is reported, with what it cost', async () => {
  const reports: string[] = [];
  const answers: Answer[] = [
    json(500, {}),
    json(200, QUOTA),
    (_request, response) => void response.destroy(),
  ];
  const origin = await startOrigin(answers);
  const { client } = mailboxClient(origin.url, {
    retries: { attempts: 2 },
    onRequest: ({ operation, surface, status, bytes, host, ms }) => {
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(host).toBe(new URL(origin.url).host);
      reports.push(`${surface} ${operation} ${status} ${bytes}`);
    },
  });
  await client.getQuota('AC1');
  await failureOf(client.getCurrentAccount());
  expect(reports).toEqual([
    'mailbox getQuota 500 2',
    `mailbox getQuota 200 ${JSON.stringify(QUOTA).length}`,
    'mailbox getCurrentAccount 0 0',
    'mailbox getCurrentAccount 0 0',
  ]);
});
