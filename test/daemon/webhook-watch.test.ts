import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StoredWebhook } from '../../src/core/secrets.ts';
import { Secret } from '../../src/core/secrets.ts';
import { deliver } from '../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Mailbox } from '../../src/sandbox/store.ts';
import { memoryOf } from '../sync/harness.ts';
import { mail } from '../sync/model-origin.ts';
import { type WatchedAccount, watchedAccount } from './watched-account.ts';

const MINUTE = 60_000;
/** Nothing listens there: what is delivered never arrives. */
const URL_OF_NOBODY = 'http://127.0.0.1:9/webhook';

let time: number;
let sandbox: Sandbox;
let watched: WatchedAccount;
const comparedAt = new Map<string, number>();

beforeEach(async () => {
  time = Date.UTC(2026, 10, 20);
  const addresses = ['ada@example.org', 'ben@example.org', 'cem@example.org'];
  // Without a limit that would make a test wait.
  const settings = { platformRequestsPerMinute: null };
  sandbox = await startSandbox({ addresses, mail: { messages: 6 }, now: () => time, settings });
  comparedAt.clear();
  const stored = sandbox.mailboxes.map((_, n) => hook(mailbox(n)));
  watched = watchedAccount({
    sandbox,
    platform: true,
    memory: memoryOf(),
    now: () => time,
    stored: () => stored,
    lastCompared: (id) => ({ at: comparedAt.get(id) ?? 0, messages: 0 }),
  });
});
afterEach(async () => {
  await watched.close();
  await sandbox.close();
});

function mailbox(n: number): Mailbox {
  const found = sandbox.service.store.mailboxes.get(sandbox.mailboxes[n]?.resourceId ?? '');
  if (found === undefined) throw new Error(`there is no mailbox ${n}`);
  return found;
}

function hook(at: Mailbox): StoredWebhook {
  const { id } = sandbox.service.webhooks.create(at, {
    name: 'mailkeep',
    description: null,
    events: ['message.received'],
    status: 'active',
    url: URL_OF_NOBODY,
  });
  return {
    id,
    mailboxId: at.resourceId,
    mailbox: at.address,
    account: 'main',
    host: new URL(sandbox.mailboxUrl).host,
    url: URL_OF_NOBODY,
    secret: new Secret('not used'),
    createdAt: '2026-11-20T00:00:00Z',
  };
}

async function arrive(n: number): Promise<void> {
  const { service } = sandbox;
  const inbox = service.store.folderFor(mailbox(n), 'INBOX');
  deliver(service, mailbox(n), inbox, Buffer.from(mail(`for ${n}`)));
  await service.deliveries.idle();
}

async function look(): Promise<void> {
  watched.webhooks.look();
  await watched.webhooks.idle();
}

test('mailboxes with deliveries that no pass has followed are checked sooner, once', async () => {
  await watched.survey();
  await look();
  expect(watched.sooner).toEqual([]);
  time += MINUTE;
  await arrive(0);
  await arrive(2);
  comparedAt.set(mailbox(0).resourceId, time - 1);
  comparedAt.set(mailbox(2).resourceId, time + 1);
  time += MINUTE;
  await look();
  expect(watched.sooner).toEqual([[mailbox(0).resourceId]]);
  await look();
  expect(watched.sooner).toHaveLength(1);
  time += MINUTE;
  for (const n of [0, 1, 2]) await arrive(n);
  comparedAt.set(mailbox(0).resourceId, time - 3);
  comparedAt.set(mailbox(1).resourceId, time - 5);
  comparedAt.set(mailbox(2).resourceId, time - 4);
  await look();
  // Those that were compared longest ago first.
  expect(watched.sooner[1]).toEqual([1, 2, 0].map((n) => mailbox(n).resourceId));
  expect(sandbox.requests().byOperation).toMatchObject({
    'platform.listDeliveryLogs': 4,
    'platform.listWebhooks': 4,
    // The survey has named the order.
    getCurrentAccount: 1,
  });
});

test('what was delivered while nobody ran is known before the mailboxes are, and waits for them', async () => {
  await arrive(1);
  await look();
  expect(watched.sooner).toEqual([]);
  await watched.survey();
  const run = { id: 1, kind: 'sync', account: 'main', startedAt: time } as const;
  watched.webhooks.onEvent({ event: 'run-started', run, mailboxes: 3 });
  expect(watched.sooner).toEqual([[mailbox(1).resourceId]]);
  watched.webhooks.onEvent({ event: 'run-started', run, mailboxes: 3 });
  expect(watched.sooner).toHaveLength(1);
});

test('the log is read to where it is known, and no further', async () => {
  await watched.survey();
  for (let n = 0; n < 250; n += 1) {
    time += 1;
    await arrive(n % 3);
  }
  await look();
  // Nothing was known: two pages of it.
  const pages = (): number => sandbox.requests().byOperation['platform.listDeliveryLogs'] ?? 0;
  expect(pages()).toBe(2);
  // Deliveries that are still being tried would be read again: a day later they are not.
  time += 25 * 60 * MINUTE;
  await look();
  expect(pages()).toBe(3);
  for (let n = 0; n < 150; n += 1) {
    time += 1;
    await arrive(1);
  }
  await look();
  expect(pages()).toBe(5);
  expect(watched.sooner.at(-1)).toEqual([mailbox(1).resourceId]);
});
