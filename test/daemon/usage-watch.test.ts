import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Mailbox } from '../../src/sandbox/store.ts';
import type { Memory } from '../../src/sync/ports.ts';
import type { LastComparison } from '../../src/sync/sync-memory.ts';
import { isQuotaDue, rememberUsages, suspendedSince } from '../../src/sync/usage.ts';
import { memoryOf } from '../sync/harness.ts';
import { mail } from '../sync/model-origin.ts';
import { type WatchedAccount, watchedAccount } from './watched-account.ts';

const HOUR = 3_600_000;
const LISTING = 'platform.listMailboxes';

let time: number;
let sandbox: Sandbox;
let watched: WatchedAccount;
let compared: Map<string, LastComparison>;

const now = (): number => time;

beforeEach(async () => {
  time = Date.UTC(2026, 10, 20);
  compared = new Map();
  const addresses = ['ada', 'ben', 'cem', 'dia'].map((name) => `${name}@example.org`);
  sandbox = await startSandbox({ addresses, mail: { messages: 8 }, now });
  watched = open(memoryOf());
});
afterEach(async () => {
  await watched.close();
  await sandbox.close();
});

function open(kept: Memory): WatchedAccount {
  const lastCompared = (id: string): LastComparison => compared.get(id) ?? { at: 0, messages: 0 };
  return watchedAccount({ sandbox, platform: true, memory: kept, now, lastCompared });
}

const requests = (): Readonly<Record<string, number>> => sandbox.requests().byOperation;

function mailbox(n: number): Mailbox {
  const found = sandbox.service.store.mailboxes.get(sandbox.mailboxes[n]?.resourceId ?? '');
  if (found === undefined) throw new Error(`there is no mailbox ${n}`);
  return found;
}

function arrive(n: number): void {
  const { store } = sandbox.service;
  store.add(store.folderFor(mailbox(n), 'INBOX'), Buffer.from(mail(`new in ${n}`)), time, []);
}

async function look(): Promise<void> {
  watched.usage.look();
  await watched.usage.idle();
}

/** Long enough for four mailboxes to be listed again. */
async function lookLater(): Promise<void> {
  time += 13 * HOUR;
  await look();
}

test('nothing is listed before the mailboxes are known, then all of them by one request', async () => {
  await look();
  expect(requests()[LISTING]).toBeUndefined();
  await watched.survey();
  await look();
  await look();
  expect(requests()[LISTING]).toBe(1);
  await lookLater();
  expect(requests()).toMatchObject({ [LISTING]: 2, getCurrentAccount: 1 });
});

test('a mailbox whose usage moved is checked sooner, unless a pass has seen as many messages', async () => {
  await watched.survey();
  await look();
  expect(watched.sooner).toEqual([]);
  for (const n of [0, 1, 2]) arrive(n);
  const usage = sandbox.service.store.usage(mailbox(1)).messages;
  compared.set(mailbox(0).resourceId, { at: time, messages: 0 });
  compared.set(mailbox(1).resourceId, { at: time, messages: usage });
  compared.set(mailbox(2).resourceId, { at: time - HOUR, messages: 0 });
  await lookLater();
  // Those that were compared longest ago first.
  expect(watched.sooner).toEqual([[mailbox(2).resourceId, mailbox(0).resourceId]]);
  await lookLater();
  expect(watched.sooner).toHaveLength(1);
});

test('a suspended mailbox is named, and not any more when it is active again', async () => {
  await watched.survey();
  const { standings } = sandbox.service;
  standings.setStatus(mailbox(3), 'suspended');
  const kept = memoryOf();
  await watched.close();
  watched = open(kept);
  await watched.survey();
  await look();
  const at = (n: number) => ({ host: watched.account.host, mailbox: mailbox(n).resourceId });
  expect([0, 3].map((n) => suspendedSince(kept, at(n)))).toEqual([null, time]);
  expect(watched.lines).toContainEqual(
    expect.objectContaining({ level: 40, mailbox: mailbox(3).resourceId }),
  );
  standings.setStatus(mailbox(3), 'active');
  await lookLater();
  expect(suspendedSince(kept, at(3))).toBeNull();
});

test('a mailbox that cannot be reached has the order listed out of turn', async () => {
  await watched.survey();
  await look();
  const failure = {
    account: 'main',
    mailbox: 'dia@example.org',
    folder: null,
    uid: null,
    family: 'origin' as const,
    code: 'origin.forbidden',
    facts: {},
  };
  const { resourceId, address } = mailbox(3);
  const { host } = watched.account;
  const refuse = (): void =>
    watched.usage.onEvent({
      event: 'pass-finished',
      isNarrow: false,
      kind: 'sync',
      mailbox: { account: 'main', host, resourceId, address },
      result: {
        mailboxes: [],
        requests: 0,
        requestsByOperation: {},
        timings: { fetchMs: 0, indexMs: 0 },
        durationMs: 0,
        failures: [failure],
        certificates: [],
        excluded: [],
      },
    });
  refuse();
  await look();
  expect(requests()[LISTING]).toBe(1);
  time += HOUR / 2;
  await look();
  expect(requests()[LISTING]).toBe(2);
  time += HOUR;
  await look();
  expect(requests()[LISTING]).toBe(2);
});

test('a platform surface that fails is said once and left alone for an hour', async () => {
  await watched.survey();
  sandbox.service.tokens.revoke(sandbox.tokens.platform, time);
  for (let n = 0; n < 3; n += 1) await look();
  expect(requests()[LISTING]).toBe(1);
  time += HOUR;
  await look();
  expect(requests()[LISTING]).toBe(2);
  expect(watched.lines.filter(({ level }) => level === 40)).toHaveLength(1);
  expect(watched.sooner).toEqual([]);
});

test('a usage that the service counted long ago does not stand for a quota', async () => {
  const kept = memoryOf();
  await watched.close();
  watched = open(kept);
  const { host } = watched.account;
  const [old, fresh] = [mailbox(0), mailbox(1)];
  const counted = new Map([
    [old.resourceId, time - 30 * HOUR],
    [fresh.resourceId, time - HOUR],
  ]);

  const usage = { suspended: false, resources: [{ name: 'MESSAGE', usage: 5, limit: 10 }] };
  const said = rememberUsages(
    { memory: kept, account: 'main', host, now: time },
    [old, fresh, mailbox(2)],
    {
      pages: 1,
      complete: true,
      mailboxes: [
        ...[old, fresh].map(({ resourceId, address }) => ({
          ...usage,
          address: address.toUpperCase(),
          countedAt: counted.get(resourceId) ?? null,
        })),
        // Two mailboxes cannot have one address: neither is believed.
        { ...usage, address: mailbox(2).address, countedAt: null },
        { ...usage, address: mailbox(2).address, countedAt: null, suspended: true },
      ],
    },
  );
  expect([...said.keys()]).toEqual([old.resourceId, fresh.resourceId]);
  const due = [old, fresh, mailbox(2)].map(({ resourceId }) =>
    isQuotaDue(kept, { host, mailbox: resourceId }, time),
  );
  expect(due).toEqual([true, false, true]);
});
