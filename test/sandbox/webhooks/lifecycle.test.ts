import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Hook, type Hooked, hooked } from './hooked.ts';
import { receive, statuses } from './receiver.ts';

let h: Hooked;
beforeEach(async () => {
  h = await hooked();
});
afterEach(() => h.close());

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
