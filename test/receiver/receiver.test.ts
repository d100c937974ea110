import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import type { KnownWebhook, ReceiverEvent } from '../../src/daemon/receiver.ts';
import {
  type DeliveredChange,
  type Receiver,
  type ReceiverOptions,
  startReceiver,
} from '../../src/daemon/receiver.ts';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';

const SECRET = 'whsec-4b1d7e90';
const LISTEN = { host: '127.0.0.1', port: 0 };

let here: Hooked;
const open: Receiver[] = [];
let webhooks: KnownWebhook[] = [];
let hints: DeliveredChange[] = [];
let events: ReceiverEvent[] = [];
let reads = 0;
let time = 0;
let heard = (): void => {};

beforeEach(async () => {
  [webhooks, hints, events, reads, time] = [[], [], [], 0, Date.UTC(2026, 10, 20)];
  heard = () => {};
  here = await hooked();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((receiver) => receiver.close()));
  await here.close();
});

async function receiver(more: Partial<ReceiverOptions> = {}): Promise<string> {
  const started = await startReceiver({
    listen: LISTEN,
    secrets: async () => {
      reads += 1;
      return webhooks;
    },
    onHint: (hint) => {
      hints.push(hint);
      heard();
    },
    log: (event) => events.push(event),
    now: () => time,
    ...more,
  });
  open.push(started);
  return `http://127.0.0.1:${started.address.port}`;
}

function webhook(secret = SECRET, more: Partial<KnownWebhook> = {}): KnownWebhook {
  return {
    id: 'w1',
    mailboxId: 'AC1',
    mailbox: 'ana@example.org',
    url: 'https://hooks.example.org/mail/ana',
    secret: { reveal: () => secret },
    ...more,
  };
}

const post = (
  url: string,
  body: string | Uint8Array<ArrayBuffer> = '{}',
  secret = SECRET,
): Promise<Response> =>
  fetch(url, { method: 'POST', headers: { authorization: `Bearer ${secret}` }, body });

test('mail that arrives at the service is hinted at, with the mailbox of the secret', async () => {
  const base = await receiver();
  const hook = await here.createHook(`${base}/inbound`);
  const { resourceId, address } = here.served.sandbox.mailboxes[0] ?? {};
  webhooks = [
    webhook(hook.secret, {
      id: hook.id,
      url: `${base}/inbound`,
      mailboxId: resourceId ?? '',
      mailbox: address ?? '',
    }),
  ];
  await here.arrive();
  expect(hints).toEqual([{ resourceId, folder: 'INBOX', uid: 1 }]);
  // Created after the start: the first delivery had it read.
  expect(reads).toBe(2);
  const log = await here.log();
  expect(log.data).toEqual([expect.objectContaining({ is_successful: true, retry_count: 0 })]);
  expect(events).toEqual([{ event: 'delivery', webhook: hook.id, bytes: expect.any(Number) }]);
});

test('a new secret is believed with its first delivery, and the old one no more', async () => {
  webhooks = [webhook()];
  const base = await receiver();
  expect((await post(base)).status).toBe(204);
  webhooks = [webhook('whsec-new')];
  expect((await post(base, '{}', 'whsec-new')).status).toBe(204);
  expect((await post(base)).status).toBe(401);
  expect(hints).toHaveLength(2);
});

test.each([
  ['nothing', ''],
  ['no JSON', 'ding'],
  ['another shape', '[{"data":7}]'],
  ['bytes', new Uint8Array([0xff, 0, 0x80])],
  ['nested deeply', '['.repeat(60_000)],
])('a body that is %s is a hint all the same', async (_, body) => {
  webhooks = [webhook()];
  const base = await receiver();
  expect((await post(base, body)).status).toBe(204);
  expect(hints).toEqual([expect.objectContaining({ resourceId: 'AC1', folder: null, uid: null })]);
});

test('a secret speaks for its own mailbox only', async () => {
  webhooks = [webhook()];
  const base = await receiver();
  const about = (mailbox: string) => JSON.stringify({ mailbox, data: { path: 'INBOX', uid: 7 } });
  await post(base, about('bea@example.org'));
  await post(base, about('ANA@example.org'));
  expect(hints).toEqual([
    expect.objectContaining({ folder: null, uid: null }),
    expect.objectContaining({ folder: 'INBOX', uid: 7 }),
  ]);
});

test('strangers learn a status and nothing more, and nothing they sent is logged', async () => {
  webhooks = [webhook()];
  const base = await receiver({ publicUrl: 'https://hooks.example.org/public' });
  const said = async (response: Response) => [response.status, await response.text()];
  expect(await said(await post(`${base}/`, '{}', 'guess'))).toEqual([401, '']);
  expect(await said(await fetch(base, { method: 'POST' }))).toEqual([401, '']);
  const basic = { authorization: `Basic ${SECRET}` };
  expect(await said(await fetch(base, { method: 'POST', headers: basic }))).toEqual([401, '']);
  expect(await said(await post(`${base}/elsewhere`))).toEqual([404, '']);
  expect(await said(await fetch(`${base}/.env`))).toEqual([404, '']);
  expect(await said(await fetch(`${base}/webhook`))).toEqual([405, '']);
  expect(hints).toEqual([]);
  for (const path of ['/', '/webhook', '/public', '/mail/ana?x=1']) {
    expect((await post(`${base}${path}`)).status).toBe(204);
  }
  const logged = JSON.stringify(events);
  for (const word of ['guess', SECRET, '@', 'elsewhere', '.env', '127.0.0.1']) {
    expect(logged).not.toContain(word);
  }
});

test('a body that is too long is refused, and the mailbox is hinted at all the same', async () => {
  webhooks = [webhook()];
  const base = await receiver({ limits: { bodyBytes: 1_000 } });
  expect((await post(base, 'x'.repeat(1_001))).status).toBe(413);
  const chunks = new ReadableStream({
    start(controller) {
      for (let n = 0; n < 20; n += 1) controller.enqueue(Buffer.alloc(100, 120));
      controller.close();
    },
  });
  const streamed = await fetch(base, {
    method: 'POST',
    headers: { authorization: `Bearer ${SECRET}` },
    body: chunks,
    duplex: 'half',
  } as RequestInit);
  expect(streamed.status).toBe(413);
  expect((await post(base, 'x'.repeat(1_000))).status).toBe(204);
  expect(hints).toHaveLength(3);
});

test('who guesses is slowed down, and does not slow down who knows', async () => {
  webhooks = [webhook()];
  const base = await receiver({ limits: { strangers: { burst: 3, perSecond: 1 } } });
  const codes: number[] = [];
  for (let n = 0; n < 5; n += 1) codes.push((await post(base, '{}', `guess-${n}`)).status);
  expect(codes).toEqual([401, 401, 401, 429, 429]);
  // Only so often do strangers make the stored webhooks be read.
  expect(reads).toBe(1 + 3);
  const refused = await post(base, '{}', 'guess');
  expect(refused.headers.get('retry-after')).toBe('1');
  expect((await post(base)).status).toBe(204);
  time += 1_000;
  expect((await post(base, '{}', 'guess')).status).toBe(401);
  time += 60_000;
  expect((await post(base, '{}', 'guess')).status).toBe(401);
  expect(events.filter(({ event }) => event === 'refused')).toEqual([
    { event: 'refused', reason: 'secret', times: 1 },
    { event: 'refused', reason: 'rate', times: 1 },
    { event: 'refused', reason: 'secret', times: 4 },
  ]);
});

test('who cannot be believed takes no turn from who may be', async () => {
  const base = await receiver({ limits: { strangers: { burst: 1, perSecond: 0.001 } } });
  for (let n = 0; n < 3; n += 1) {
    expect((await fetch(base, { method: 'POST' })).status).toBe(401);
    expect((await fetch(base, { headers: { authorization: 'Bearer guess' } })).status).toBe(405);
    expect((await fetch(`${base}/.env`)).status).toBe(404);
  }
  webhooks = [webhook()];
  expect((await post(base)).status).toBe(204);
  expect(reads).toBe(2);
});

test('a new webhook is known after five seconds, however many guess', async () => {
  const base = await receiver({ limits: { strangers: { burst: 1, perSecond: 0.001 } } });
  expect((await post(base, '{}', 'guess')).status).toBe(401);
  webhooks = [webhook()];
  time += 4_999;
  for (let n = 0; n < 3; n += 1) expect((await post(base, '{}', 'guess')).status).toBe(429);
  expect((await post(base)).status).toBe(429);
  expect(reads).toBe(2);
  time += 1;
  expect((await post(base, '{}', 'guess')).status).toBe(429);
  expect((await post(base)).status).toBe(204);
  expect((await post(base, '{}', 'guess')).status).toBe(429);
  expect(reads).toBe(3);
});

test('deliveries of one webhook that come too fast are sent back, those of another are not', async () => {
  webhooks = [webhook(), webhook('other', { id: 'w2', mailboxId: 'AC2' })];
  const base = await receiver({ limits: { deliveries: { burst: 2, perSecond: 0.5 } } });
  const codes: number[] = [];
  for (let n = 0; n < 3; n += 1) codes.push((await post(base)).status);
  expect(codes).toEqual([204, 204, 429]);
  expect((await post(base, '{}', 'other')).status).toBe(204);
  time += 2_000;
  expect((await post(base)).status).toBe(204);
});

test('a client that sends a header or a body too slowly is cut off, and others are served meanwhile', async () => {
  webhooks = [webhook()];
  const limits = { headersMs: 200, requestMs: 400, checkMs: 50 };
  const base = await receiver({ limits });
  const port = Number(new URL(base).port);
  const slow = (text: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(text));
      let answer = '';
      socket.on('data', (chunk) => {
        answer += chunk.toString();
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve(answer));
    });
  const head = `POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${SECRET}\r\n`;
  const cut = [slow(head), slow(`${head}Content-Length: 50\r\n\r\n{`)];
  expect((await post(base)).status).toBe(204);
  const [header, body] = await Promise.all(cut);
  expect(header).toMatch(/^HTTP\/1.1 408 /);
  expect(body).toMatch(/^(HTTP\/1.1 4|$)/);
  expect((await post(base)).status).toBe(204);
  expect(hints).toHaveLength(2);
  expect(events).toContainEqual({ event: 'refused', reason: 'broken', times: 1 });
});

/** Opens connections and sends half a request on each, all at once. Resolves with those that were opened. */
async function halfSent(base: string, count: number): Promise<Socket[]> {
  const port = Number(new URL(base).port);
  const head = `POST / HTTP/1.1\r\nHost: x\r\n`;
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => {});
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve) => {
          socket.once('connect', () => socket.write(head, () => resolve()));
          socket.once('close', () => resolve());
        }),
    ),
  );
  return sockets;
}

test('hundreds of half-sent requests do not shut out a good delivery', async () => {
  webhooks = [webhook()];
  const base = await receiver({ limits: { headersMs: 600_000, requestMs: 600_000 } });
  await halfSent(base, 300);
  expect((await post(base)).status).toBe(204);
  await halfSent(base, 300);
  expect((await post(base)).status).toBe(204);
  expect(hints).toHaveLength(2);
});

test('a delivery whose body is under way is not pushed out', async () => {
  webhooks = [webhook()];
  const base = await receiver({
    limits: { connections: 4, idlePerAddress: 2, headersMs: 600_000, requestMs: 600_000 },
  });
  const slow = connect(Number(new URL(base).port), '127.0.0.1');
  onTestFinished(() => {
    slow.destroy();
  });
  let answer = '';
  slow.on('data', (chunk) => {
    answer += chunk.toString();
  });
  const head = `POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${SECRET}\r\n`;
  slow.write(`${head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n`);
  // The header was read: from now on the request is being answered.
  await expect.poll(() => answer).toContain('100 Continue');
  await halfSent(base, 20);
  slow.write('{}');
  await expect.poll(() => answer).toContain('HTTP/1.1 204');
  expect(hints).toHaveLength(1);
});

test('a mistake of ours is logged, and answered with 500', async () => {
  webhooks = [webhook()];
  const base = await receiver();
  heard = () => {
    throw new TypeError('our mistake');
  };
  expect((await post(base)).status).toBe(500);
  expect(events).toEqual([{ event: 'failed', error: expect.any(TypeError) }]);
});

test('secrets that cannot be read are reported, and those known stay', async () => {
  webhooks = [webhook()];
  let broken = false;
  const { webhookError } = await import('../../src/core/error-tables.ts');
  const base = await receiver({
    secrets: async () => {
      if (broken) {
        throw webhookError('webhook-secret-unreadable', { file: 'f', reason: 'EIO' });
      }
      return webhooks;
    },
  });
  broken = true;
  expect((await post(base, '{}', 'guess')).status).toBe(401);
  expect((await post(base)).status).toBe(204);
  expect(events).toContainEqual({
    event: 'secrets-unreadable',
    code: 'webhook-secret-unreadable',
  });
});

test('a taken port is an error of the configuration, and a closed receiver frees it', async () => {
  const base = await receiver();
  const taken = { host: '127.0.0.1', port: Number(new URL(base).port) };
  await expect(receiver({ listen: taken })).rejects.toMatchObject({
    family: 'config',
    code: 'cannot-listen',
    facts: { section: 'webhook', reason: 'EADDRINUSE' },
  });
  await Promise.all(open.splice(0).map((each) => each.close()));
  expect(await receiver({ listen: taken })).toBe(base);
});
