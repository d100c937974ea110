import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openState, type StateFile } from '../../src/core/state.ts';
import {
  fetchDeliveries,
  judgeWebhooks,
  type LoggedDelivery,
  type OwnWebhook,
  storedDeliveries,
  watchDeliveries,
} from '../../src/daemon/delivery-watch.ts';
import { webhookObservations } from '../../src/daemon/notifying.ts';
import { PlatformClient } from '../../src/service/client.ts';
import { json, startOrigin } from '../api/local-origin.ts';
import { type Hook, type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import { statuses } from '../sandbox/webhooks/receiver.ts';

const MINUTE = 60_000;
let here: Hooked;
let state: StateFile;
let folder: string;
let platform: PlatformClient;

beforeEach(async () => {
  // Without limits, because neither the service nor the client may make a test wait.
  here = await hooked({ settings: { platformRequestsPerMinute: null } });
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-watch-'));
  state = openState(folder);
  const { platformUrl, tokens } = here.served.sandbox;
  platform = new PlatformClient({
    baseUrl: platformUrl,
    token: () => Promise.resolve(tokens.platform),
    requestsPerMinute: 10_000_000,
  });
});
afterEach(async () => {
  await platform.close();
  state.close();
  rmSync(folder, { recursive: true });
  await here.close();
});

function own(hook: Pick<Hook, 'id'>, url: string): OwnWebhook {
  const [box] = here.served.sandbox.mailboxes;
  return {
    id: hook.id,
    account: 'main',
    mailboxId: box?.resourceId ?? '',
    mailbox: box?.address ?? '',
    url,
  };
}

const watch = (webhooks: readonly OwnWebhook[]) =>
  watchDeliveries({
    account: 'main',
    orderId: here.orderId,
    platform,
    own: webhooks,
    memory: state,
    now: here.clock.now,
    signal: new AbortController().signal,
  });

test('a webhook that delivers is well; paused, failing and deleted ones are found, and the log is kept', async () => {
  const receiver = await here.receiver(statuses(200, 500, 500, 500, 200));
  const hook = await here.createHook(receiver.url);
  const ours = own(hook, receiver.url);
  const states = async () => (await watch([ours])).map(({ state: found }) => found);
  expect(await states()).toEqual(['well']);
  await here.arrive();
  expect(await states()).toEqual(['well']);
  // The first attempts of three deliveries fail.
  for (let n = 0; n < 3; n += 1) {
    here.clock.pass(1);
    await here.arrive();
  }
  const [failing] = await watch([ours]);
  expect(failing).toMatchObject({ state: 'failing', failures: 3, status: 'active' });
  expect(failing?.lastSuccessAt).toEqual(expect.any(Number));
  here.clock.pass(5 * MINUTE);
  await here.settled();
  expect(await states()).toEqual(['well']);
  await here.patchHook(hook, { status: 'paused' });
  expect(await watch([ours])).toMatchObject([{ state: 'off', status: 'paused' }]);
  await platform.deleteWebhook(hook.id);
  const missing = await watch([ours]);
  expect(missing).toMatchObject([{ state: 'missing', status: null }]);
  expect(webhookObservations(missing)).toEqual([
    {
      subject: { kind: 'webhook', name: hook.id },
      failure: {
        family: 'origin',
        code: 'webhook-missing',
        message: expect.stringContaining(hook.id),
      },
    },
  ]);
  const kept = storedDeliveries(state, 'main');
  expect(kept).toHaveLength(4);
  expect(kept.every(({ success }) => success)).toBe(true);
  const { byOperation } = here.served.sandbox.requests();
  expect(byOperation['platform.listDeliveryLogs']).toBe(6);
});

test('without webhooks of our own nothing is asked', async () => {
  await here.createHook('http://127.0.0.1:9/somebody-elses');
  expect(await watch([])).toEqual([]);
  expect(here.served.sandbox.requests().byOperation['platform.listWebhooks']).toBeUndefined();
});

test('one delivery that was given up is failing until one succeeds, and for a day', () => {
  const now = Date.UTC(2026, 10, 20);
  const webhook = { id: 'w', account: 'main', mailboxId: 'AC1', mailbox: 'a@b.example', url: 'u' };
  const entry = (ago: number, success: boolean, attempts = 6): LoggedDelivery => ({
    at: now - ago * MINUTE,
    mailbox: 'a@b.example',
    url: 'u',
    success,
    attempts,
    mostAttempts: 6,
    durationMs: 5,
  });
  const judged = (...log: LoggedDelivery[]) =>
    judgeWebhooks([webhook], [{ id: 'w', status: 'active', url: 'u' }], log, now)[0]?.state;
  expect(judged(entry(5, false))).toBe('failing');
  expect(judged(entry(5, false), entry(3, true, 1))).toBe('well');
  expect(judged(entry(5, true, 1), entry(3, false))).toBe('failing');
  expect(judged(entry(5, false, 2))).toBe('well');
  expect(judged(entry(24 * 60, false))).toBe('well');
  expect(judged({ ...entry(5, false), url: 'other' })).toBe('well');
  // Three first attempts that failed; three that are still to be made.
  expect(judged(entry(5, false, 1), entry(4, false, 1), entry(3, false, 1))).toBe('failing');
  expect(judged(entry(5, false, 0), entry(4, false, 0), entry(3, false, 0))).toBe('well');
});

test('a delivery that was never tried has no attempts', async () => {
  const entry = {
    created_at: '2026-11-20T10:00:00Z',
    mailbox_address: 'a@b.example',
    webhook_url: 'https://hooks.example.org/',
    max_retry_count: 5,
  };
  const data = [
    { ...entry, is_successful: null, duration: null, retry_count: 0 },
    { ...entry, is_successful: false, duration: 0, retry_count: 0 },
    { ...entry, is_successful: false, duration: 3, retry_count: 0 },
    { ...entry, is_successful: false, duration: 0, retry_count: 2 },
    { ...entry, is_successful: true, duration: 0, retry_count: 0 },
  ];
  const meta = { current_page: 1, per_page: 100, total: data.length };
  const origin = await startOrigin(json(200, { data, meta }));
  const client = new PlatformClient({
    baseUrl: origin.url,
    token: () => Promise.resolve('token'),
  });
  const { signal } = new AbortController();
  try {
    const told = await fetchDeliveries(client, 'OR1', [], Date.now(), signal);
    expect(told.map(({ attempts, mostAttempts }) => [attempts, mostAttempts])).toEqual([
      [0, 6],
      [0, 6],
      [1, 6],
      [3, 6],
      [1, 6],
    ]);
  } finally {
    await client.close();
  }
});
