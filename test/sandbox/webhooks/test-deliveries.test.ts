import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Hooked, hooked } from './hooked.ts';
import { statuses } from './receiver.ts';

let h: Hooked;
beforeEach(async () => {
  h = await hooked({ settings: { webhookTestsPerMinute: 2 } });
});
afterEach(() => h.close());

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
