import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Hooked, hooked } from './hooked.ts';
import { statuses } from './receiver.ts';

let h: Hooked;
beforeEach(async () => {
  h = await hooked();
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
