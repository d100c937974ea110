import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Store } from '../../../src/sandbox/store.ts';
import { type Delivery, DeliveryLog, targetProblem } from '../../../src/sandbox/webhooks.ts';
import { type Hook, type Hooked, hooked } from './hooked.ts';
import { receive, statuses } from './receiver.ts';

let h: Hooked;
beforeEach(async () => {
  h = await hooked({ settings: { webhookTestsPerMinute: 2 } });
});
afterEach(() => h.close());

describe('mail that arrives', () => {
  test('is reported to the webhooks of its mailbox, with their secret', async () => {
    const receiver = await h.receiver();
    const hook = await h.createHook(receiver.url);
    await h.arrive(0, 'Grüße');
    expect(receiver.got).toHaveLength(1);
    const [delivery] = receiver.got;
    expect(delivery?.path).toBe('/hook');
    expect(delivery?.headers).toMatchObject({
      authorization: `Bearer ${hook.secret}`,
      'content-type': 'application/json',
    });
    const { json } = await h.served.call(`GET ${h.served.m}/folders/INBOX/messages/1`);
    expect(JSON.parse(delivery?.body ?? '')).toEqual({
      event: 'message.received',
      mailbox: 'ada@example.org',
      ...(typeof json === 'object' ? json : {}),
    });
    expect((await h.log()).data).toEqual([
      {
        created_at: '2026-01-01T00:00:00.000Z',
        mailbox_address: 'ada@example.org',
        webhook_url: receiver.url,
        is_successful: true,
        duration: expect.any(Number),
        retry_count: 0,
        max_retry_count: 5,
      },
    ]);
  });

  test('goes to every active webhook of that mailbox and to no other', async () => {
    const [first, second, paused] = [await h.receiver(), await h.receiver(), await h.receiver()];
    await h.createHook(first.url);
    await h.createHook(second.url);
    await h.createHook(paused.url, { status: 'paused' });
    await h.arrive(1);
    expect(first.got).toHaveLength(0);
    await h.arrive(0);
    expect([first.got.length, second.got.length, paused.got.length]).toEqual([1, 1, 0]);
  });

  test('by sendEmail counts for the recipient; the copy of the sender does not', async () => {
    const receiver = await h.receiver();
    await h.createHook(receiver.url);
    const send = (to: string) =>
      h.served.call(`POST ${h.served.m}/send`, { body: { to: [to], subject: 's', text: 't' } });
    await send('somebody@example.net');
    await h.settled();
    expect(receiver.got).toHaveLength(0);
    await send('ada@example.org');
    await h.settled();
    expect(receiver.got).toHaveLength(1);
    expect(JSON.parse(receiver.got[0]?.body ?? '')).toMatchObject({ data: { path: 'INBOX' } });
  });

  test('is all that counts: moving, flagging, reading and deleting report nothing', async () => {
    const receiver = await h.receiver();
    await h.arrive();
    await h.arrive();
    await h.createHook(receiver.url);
    const at = `${h.served.m}/folders/INBOX/messages`;
    const change = async (route: string, body?: object) => {
      const { status } = await h.served.call(route, body === undefined ? {} : { body });
      expect(status).toBeLessThan(300);
    };
    await change(`PATCH ${at}/1`, { addFlags: ['\\Flagged'] });
    await change(`GET ${at}/1/text`);
    await change(`POST ${at}/flags`, { uids: [1, 2], addFlags: ['\\Seen'] });
    await change(`POST ${at}/1/move`, { targetFolder: 'INBOX.Trash' });
    await change(`POST ${h.served.m}/folders/INBOX.Trash/messages/1/move`, {
      targetFolder: 'INBOX',
    });
    await change(`POST ${at}/move`, { uids: [2], targetFolder: 'INBOX.Trash' });
    await change(`DELETE ${at}/3`);
    await change(`DELETE ${at}`);
    await h.settled();
    expect(receiver.got).toHaveLength(0);
  });
});

describe('a receiver that fails', () => {
  test('is tried again after waits that double, until it takes the delivery', async () => {
    const receiver = await h.receiver(statuses(500, 404, 200));
    await h.createHook(receiver.url);
    await h.arrive();
    expect(h.clock.waits()).toEqual([1000]);
    expect((await h.log()).data).toMatchObject([{ is_successful: false, retry_count: 0 }]);
    h.clock.pass(999);
    await h.settled();
    expect(receiver.got).toHaveLength(1);
    h.clock.pass(1);
    await h.settled();
    expect(h.clock.waits()).toEqual([2000]);
    h.clock.pass(2000);
    await h.settled();
    expect(new Set(receiver.got.map(({ body }) => body)).size).toBe(1);
    expect((await h.log()).data).toMatchObject([
      { is_successful: true, retry_count: 2, max_retry_count: 5 },
    ]);
    expect(h.clock.waits()).toEqual([]);
  });

  test('is given up after the last attempt', async () => {
    await h.close();
    h = await hooked({ settings: { webhookAttempts: 3, webhookLongestRetryMs: 1500 } });
    const receiver = await h.receiver(statuses(503));
    await h.createHook(receiver.url);
    await h.arrive();
    const waits: number[] = [];
    for (let next = h.clock.waits()[0]; next !== undefined; next = h.clock.waits()[0]) {
      waits.push(next);
      h.clock.pass(next);
      await h.settled();
    }
    expect(waits).toEqual([1000, 1500]);
    expect(receiver.got).toHaveLength(3);
    expect((await h.log()).data).toMatchObject([
      { is_successful: false, retry_count: 2, max_retry_count: 2 },
    ]);
  });

  test('by not answering has failed when its time is over', async () => {
    await h.close();
    h = await hooked({ settings: { webhookTimeoutMs: 30 } });
    const receiver = await h.receiver(() => {});
    await h.createHook(receiver.url);
    await h.arrive();
    expect(h.clock.waits()).toEqual([1000]);
    const [entry] = (await h.log()).data;
    expect(entry).toMatchObject({ is_successful: false, retry_count: 0 });
    expect(entry?.duration).toBeGreaterThanOrEqual(25);
  });

  test('by not being there has failed as well', async () => {
    const receiver = await h.receiver();
    await receiver.close();
    await h.createHook(receiver.url);
    await h.arrive();
    expect((await h.log()).data).toMatchObject([{ is_successful: false, retry_count: 0 }]);
  });

  test('by sending the delivery elsewhere has failed: the secret does not go along', async () => {
    const elsewhere = await h.receiver();
    const receiver = await h.receiver((_, response) => {
      response.writeHead(307, { location: elsewhere.url }).end();
    });
    await h.createHook(receiver.url);
    await h.arrive();
    expect(elsewhere.got).toHaveLength(0);
    expect((await h.log()).data).toMatchObject([{ is_successful: false }]);
  });

  test('does not hold up another', async () => {
    const silent = await h.receiver(() => {});
    const good = await h.receiver();
    await h.createHook(silent.url);
    await h.createHook(good.url);
    for (let n = 0; n < 6; n += 1) void h.arrive();
    await good.count(6);
    await silent.count(4);
    // The width of one webhook: the others wait for these.
    expect(silent.got).toHaveLength(4);
    await silent.close();
  });
});

test('an answer without end is read to its ceiling and no further', async () => {
  let sent = 0;
  let closed = () => {};
  const broken = new Promise<void>((resolve) => {
    closed = resolve;
  });
  const receiver = await h.receiver((_, response) => {
    response.on('close', closed);
    const piece = 'x'.repeat(16 * 1024);
    const more = () => {
      if (response.destroyed) return;
      sent += piece.length;
      if (response.write(piece)) setImmediate(more);
      else response.once('drain', more);
    };
    more();
  });
  await h.createHook(receiver.url);
  await h.arrive();
  await broken;
  // What the sockets hold comes on top of the ceiling; without one it would be gigabytes until the time-out.
  expect(sent).toBeLessThan(64 * 1024 * 1024);
  expect((await h.log()).data).toMatchObject([{ is_successful: true, retry_count: 0 }]);
});

async function remove(hook: Hook): Promise<void> {
  const { status } = await h.served.call(`DELETE ${h.served.m}/webhooks/${hook.id}`);
  expect(status).toBe(204);
}

describe('after a deletion nothing is delivered', () => {
  test('neither new mail nor a retry that was due', async () => {
    const receiver = await h.receiver(statuses(500));
    const hook = await h.createHook(receiver.url);
    await h.arrive();
    await remove(hook);
    expect(h.clock.waits()).toEqual([]);
    h.clock.pass(3_600_000);
    await h.arrive();
    expect(receiver.got).toHaveLength(1);
    // What was tried stays in the log.
    expect((await h.log()).data).toMatchObject([{ is_successful: false, retry_count: 0 }]);
  });

  test('nor what was waiting behind others, and what is being sent is broken off', async () => {
    const receiver = await h.receiver(() => {});
    const hook = await h.createHook(receiver.url);
    for (let n = 0; n < 8; n += 1) void h.arrive();
    await receiver.count(4);
    await remove(hook);
    await h.settled();
    expect(receiver.got).toHaveLength(4);
    expect((await h.log()).data).toHaveLength(4);
    expect(h.clock.waits()).toEqual([]);
  });

  test('on either surface', async () => {
    const receiver = await h.receiver(statuses(500));
    const hook = await h.createHook(receiver.url);
    await h.arrive();
    const { status } = await h.served.call(`DELETE /api/mail/v1/webhooks/${hook.id}`, {
      token: h.served.sandbox.tokens.platform,
    });
    expect(status).toBe(200);
    h.clock.pass(3_600_000);
    await h.settled();
    expect(receiver.got).toHaveLength(1);
  });
});

test('a paused webhook gets no new mail; what was due waits until it is active again', async () => {
  const receiver = await h.receiver(statuses(500, 200));
  const hook = await h.createHook(receiver.url);
  await h.arrive(0, 'before');
  await h.patchHook(hook, { status: 'paused' });
  await h.arrive(0, 'while');
  h.clock.pass(3_600_000);
  await h.settled();
  expect(receiver.got).toHaveLength(1);
  await h.patchHook(hook, { status: 'active' });
  await h.settled();
  expect(receiver.got).toHaveLength(2);
  expect(receiver.got[1]?.body).toBe(receiver.got[0]?.body);
  expect((await h.log()).data).toMatchObject([{ is_successful: true, retry_count: 1 }]);
});

test('a disabled webhook gets nothing, and what was due is given up', async () => {
  const receiver = await h.receiver(statuses(500));
  const hook = await h.createHook(receiver.url);
  await h.arrive();
  await h.patchHook(hook, { status: 'disabled' });
  await h.patchHook(hook, { status: 'active' });
  h.clock.pass(3_600_000);
  await h.settled();
  expect(receiver.got).toHaveLength(1);
  expect((await h.log()).data).toMatchObject([{ is_successful: false, retry_count: 0 }]);
});

test('a retry goes with the secret and to the URL of its time', async () => {
  const [first, second] = [await h.receiver(statuses(500)), await h.receiver()];
  const hook = await h.createHook(first.url);
  await h.arrive();
  const regenerated = await h.served.call(
    `POST ${h.served.m}/webhooks/${hook.id}/regenerate-secret`,
  );
  await h.patchHook(hook, { url: second.url });
  h.clock.pass(1000);
  await h.settled();
  expect(regenerated.json).toMatchObject({ data: { secret: expect.any(String) } });
  const authorization = second.got[0]?.headers.authorization;
  expect(authorization).not.toBe(`Bearer ${hook.secret}`);
  expect(JSON.stringify(regenerated.json)).toContain(authorization?.slice('Bearer '.length));
  expect((await h.log()).data).toMatchObject([
    { webhook_url: second.url, is_successful: true, retry_count: 1 },
  ]);
});

describe('with a state file', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-hooks-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const restart = async () => {
    const stateFile = path.join(folder, 'state.sqlite');
    await h.close();
    h = await hooked({ stateFile });
  };

  test('a restart takes up what was queued, with the attempts made', async () => {
    await restart();
    // One that outlives the service.
    const receiver = await receive(statuses(500, 200));
    await h.createHook(receiver.url);
    await h.arrive();
    await restart();
    expect(h.clock.waits()).toEqual([1000]);
    expect(receiver.got).toHaveLength(1);
    h.clock.pass(1000);
    await h.settled();
    expect(receiver.got).toHaveLength(2);
    expect(receiver.got[1]?.body).toBe(receiver.got[0]?.body);
    expect((await h.log()).data).toMatchObject([{ is_successful: true, retry_count: 1 }]);
    await receiver.close();
  });

  test('what was being sent when the service stopped is sent again, and no attempt is lost', async () => {
    await restart();
    const receiver = await receive((request, response) => {
      if (request > 1) response.end();
    });
    await h.createHook(receiver.url);
    void h.arrive();
    await receiver.count(1);
    await restart();
    await h.settled();
    expect(receiver.got).toHaveLength(2);
    expect(receiver.got[1]?.body).toBe(receiver.got[0]?.body);
    expect((await h.log()).data).toMatchObject([{ is_successful: true, retry_count: 0 }]);
    await restart();
    await h.settled();
    expect(receiver.got).toHaveLength(2);
    expect((await h.log()).data).toMatchObject([{ is_successful: true, retry_count: 0 }]);
    expect(h.clock.waits()).toEqual([]);
    await receiver.close();
  });
});

const mailboxSide = (id: string) => h.served.call(`POST ${h.served.m}/webhooks/${id}/test`);
const platformSide = (id: string) =>
  h.served.call(`POST /api/mail/v1/webhooks/${id}/test`, {
    token: h.served.sandbox.tokens.platform,
  });

test('a test delivery answers what came of it, in the shape of its surface, and is logged', async () => {
  const receiver = await h.receiver((_, response) => {
    response.writeHead(418).end('short\nand stout');
  });
  const hook = await h.createHook(receiver.url, { status: 'paused' });
  expect((await mailboxSide(hook.id)).json).toEqual({
    data: { httpStatus: 418, success: false, error: expect.stringContaining('short and stout') },
  });
  expect((await platformSide(hook.id)).json).toEqual({
    http_status: 418,
    is_successful: false,
    error: expect.stringContaining('short and stout'),
  });
  expect(receiver.got).toHaveLength(2);
  expect(JSON.parse(receiver.got[0]?.body ?? '')).toMatchObject({
    event: 'message.received',
    mailbox: 'ada@example.org',
    data: { subject: 'Test delivery' },
  });
  expect(h.clock.waits()).toEqual([]);
  expect((await h.log()).data).toMatchObject([
    { is_successful: false, retry_count: 0, max_retry_count: 0 },
    { is_successful: false, retry_count: 0, max_retry_count: 0 },
  ]);
});

test('without an answer there is no status, which is 0 where the interface wants an integer', async () => {
  const receiver = await h.receiver();
  await receiver.close();
  const hook = await h.createHook(receiver.url);
  expect((await platformSide(hook.id)).json).toEqual({
    is_successful: false,
    error: expect.stringContaining('ECONNREFUSED'),
  });
  expect((await mailboxSide(hook.id)).json).toEqual({
    data: { httpStatus: 0, success: false, error: expect.stringContaining('ECONNREFUSED') },
  });
});

test('an endpoint that repeats the secret does not get it shown', async () => {
  const receiver = await h.receiver((_, response) => {
    response.writeHead(400).end(`you sent ${receiver.got[0]?.headers.authorization}`);
  });
  const hook = await h.createHook(receiver.url);
  const { bytes } = await mailboxSide(hook.id);
  expect(bytes.toString()).toContain('you sent Bearer');
  expect(bytes.toString()).not.toContain(hook.secret);
});

test('the platform surface has a limit for each webhook, and the other one, which declares none, has not', async () => {
  const receiver = await h.receiver(statuses(200));
  const [hook, other] = [await h.createHook(receiver.url), await h.createHook(receiver.url)];
  expect((await platformSide(hook.id)).status).toBe(200);
  h.clock.pass(30_000);
  expect((await platformSide(hook.id)).status).toBe(200);
  const refused = await platformSide(hook.id);
  expect(refused).toMatchObject({ status: 429, json: { message: expect.any(String) } });
  expect(refused.headers['retry-after']).toBe('30');
  expect(refused.headers['x-ratelimit-remaining']).toBe('87');
  for (let n = 0; n < 12; n += 1) expect((await mailboxSide(hook.id)).status).toBe(200);
  expect((await platformSide(other.id)).status).toBe(200);
  expect(receiver.got).toHaveLength(15);
  h.clock.pass(30_000);
  expect((await platformSide(hook.id)).status).toBe(200);
});

function delivery(id: string, state: Delivery['state']): Delivery {
  return {
    id,
    webhook: 'w',
    mailbox: 'AC1',
    url: 'http://127.0.0.1/',
    createdAt: 0,
    state,
    attempts: 1,
    maxAttempts: 6,
    durationMs: 1,
    nextAt: null,
    body: state === 'queued' ? '{}' : null,
  };
}

test('finished deliveries are kept up to a number, queued ones however many', () => {
  const store = new Store();
  const log = new DeliveryLog(store, 2);
  for (const id of ['q1', 'q2', 'q3']) log.put(delivery(id, 'queued'));
  for (const id of ['f1', 'f2', 'f3']) log.put(delivery(id, 'failed'));
  log.put(delivery('q1', 'delivered'));
  expect(log.finished().map(({ id }) => id)).toEqual(['f3', 'q1']);
  expect(log.queued().map(({ id }) => id)).toEqual(['q2', 'q3']);
  const again = new DeliveryLog(store, 2);
  expect(new Set(again.finished().map(({ id }) => id))).toEqual(new Set(['f3', 'q1']));
  expect(again.queuedCount).toBe(2);
});

test('the log is listed newest first, in pages, for all mailboxes of an order or for one', async () => {
  const receiver = await h.receiver(statuses(200));
  await h.createHook(receiver.url);
  const other = h.served.sandbox.mailboxes[1]?.resourceId ?? '';
  await h.served.call(`POST /api/v1/mailboxes/${other}/webhooks`, {
    body: { name: 'n', url: receiver.url, events: ['message.received'] },
  });
  for (let n = 0; n < 27; n += 1) {
    await h.arrive(n % 3 === 0 ? 1 : 0);
    h.clock.pass(1000);
  }
  const first = await h.log();
  expect(first.meta).toEqual({ current_page: 1, per_page: 25, total: 27 });
  expect(first.data).toHaveLength(25);
  const second = await h.log('?page=2');
  expect(second.meta).toEqual({ current_page: 2, per_page: 25, total: 27 });
  const times = [...first.data, ...second.data].map(({ created_at }) => created_at);
  expect(times).toHaveLength(27);
  expect(times).toEqual([...times].sort().reverse());
  expect((await h.log('?page=3')).data).toEqual([]);
  const ofOther = await h.log(`?mailbox_id=${other}&per_page=100`);
  expect(ofOther.data.map(({ mailbox_address }) => mailbox_address)).toEqual(
    Array.from({ length: 9 }, () => 'office@example.org'),
  );
  expect((await h.log('?mailbox_id=')).meta).toMatchObject({ total: 27 });
  expect((await h.log('?mailbox_id=AC0')).meta).toMatchObject({ total: 0 });
});

test.each([
  'https://example.net/hook',
  'https://example.net:8443/hook?a=b',
  'https://93.184.216.34/',
  'https://[2606:2800:220:1:248:1893:25c8:1946]/',
  'https://172.32.0.1/',
  'https://localhost.example.net/',
])('%s is fine everywhere', (url) => {
  expect(targetProblem(url, false)).toBeNull();
  expect(targetProblem(url, true)).toBeNull();
});

test.each([
  'http://example.net/hook',
  'https://localhost/',
  'https://LOCALHOST./',
  'https://a.localhost:8443/',
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0.0.0.0/',
  'https://10.1.2.3/',
  'https://172.16.0.1/',
  'https://192.168.1.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://100.64.0.1/',
  'https://[::1]/',
  'https://[::]/',
  'https://[fe80::1]/',
  'https://[fd00::1]/',
  'https://[::ffff:127.0.0.1]/',
])('%s is fine in the sandbox only', (url) => {
  expect(targetProblem(url, false)).toMatch(/^must/);
  expect(targetProblem(url, true)).toBeNull();
});

test('a URL with a name and a password is fine nowhere', () => {
  expect(targetProblem('https://user:secret@example.net/', true)).toMatch(/^must not/);
});
