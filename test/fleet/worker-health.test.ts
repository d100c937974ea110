import { expect, test } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import type { DaemonLog } from '../../src/daemon/daemon-log.ts';
import { Metrics } from '../../src/daemon/metrics.ts';
import type { Registry } from '../../src/fleet/postgres.ts';
import { WorkerHealth } from '../../src/fleet/worker-health.ts';
import type { MailboxStatus } from '../../src/verify/archive-status.ts';

const NOW = Date.UTC(2026, 10, 30, 8);
const silent = { say: () => undefined, fail: () => undefined } as unknown as DaemonLog;
const unreachable = {
  read: async () => {
    throw new MailkeepError('origin', 'registry-unreachable', {});
  },
} as unknown as Registry;

function health(): WorkerHealth {
  return new WorkerHealth({ version: '1.2.3', registry: unreachable, log: silent, now: () => NOW });
}

function mailbox(resourceId: string, provenAt: string | null): MailboxStatus {
  return {
    ...{ host: 'mail.example.com', resourceId, address: `${resourceId}@example.org`, provenAt },
    ...{ unwatched: false, complete: true, certifiedAt: null, messages: 2, quarantined: 1 },
    ...{ held: 0, unread: 0, ended: 0, quota: null, suspendedSince: null, leftBehindAt: null },
    folders: [],
  };
}

/** Metrics of a daemon with two accounts, as its socket has them. */
async function daemonMetrics(...mailboxes: MailboxStatus[]): Promise<unknown> {
  const metrics = new Metrics({
    ...{ version: '1.2.3', now: () => NOW, copies: () => [] },
    status: () => ({
      ...{ messages: 20, bytes: 5_000, logBytes: 3_000, catalogBytes: 1_000, pending: 1 },
      ...{ traffic: [], budget: [], verification: null, mailboxes },
    }),
  });
  for (const account of ['anna', 'ben', 'ben']) {
    const request = { account, surface: 'mailbox', operation: 'listMessages', status: 200 };
    metrics.request({ ...request, operation: 'listMessages', ms: 5 });
  }
  return JSON.parse(await metrics.json());
}

function shard(number: number, metrics: unknown, more: object = {}) {
  const status = { isOpen: true, isRunning: true, failure: null, shippedAgeMs: 1_500, ...more };
  return { number, shard: { status, metrics: async () => metrics } };
}

const ROWS = {
  version: 7,
  workers: ['one', 'two'].map((node) => ({
    ...{ session: node, node, address: '', room: 50, isDraining: false, isDead: node === 'two' },
  })),
  shards: [1, 2].map((number) => ({
    ...{ shard: number, epoch: 3, holder: number === 1 ? 'one' : 'two', wantedNode: null },
    ...{ avoid: {}, purges: 0, messages: 20, catalogBytes: 9, isCurrent: number === 1 },
    failing: number === 1 ? null : { code: 'disk-full', node: 'two', since: 'then' },
  })),
  accounts: [
    {
      account: 1,
      tenant: 'acme',
      name: 'anna',
      shard: 1,
      settings: {},
      state: 'active',
      version: 1,
    },
  ] as const,
};

test('metrics of the daemons have the shard, and name neither accounts nor mailboxes', async () => {
  const one = health();
  const iso = (age: number) => new Date(NOW - age).toISOString();
  const first = await daemonMetrics(mailbox('m1', iso(5_000)), mailbox('m2', iso(90_000)));
  const second = await daemonMetrics(mailbox('m3', null));
  const shards = [shard(1, first), shard(2, second), shard(3, null), shard(4, { wrong: true })];
  one.show({ id: 'one', isRenewed: true, rows: ROWS, shards });
  const { answers } = one;
  const text = await answers.metrics(true);
  const lines = text.split('\n');
  expect(lines).toEqual(
    expect.arrayContaining([
      'mailkeep_mailbox_freshness_seconds{shard="1"} 90',
      'mailkeep_mailbox_freshness_seconds{shard="2"} +Inf',
      'mailkeep_mailbox_quarantined{shard="1"} 2',
      'mailkeep_messages{shard="1"} 20',
      '# TYPE mailkeep_requests_total counter',
      'mailkeep_requests_total{shard="1",surface="mailbox",operation="listMessages",status="200"} 3',
      'mailkeep_fleet_shards{state="unheld"} 1',
      'mailkeep_fleet_shards{state="failing"} 1',
      'mailkeep_fleet_shards{state="not-recovered"} 1',
      'mailkeep_fleet_sessions 1',
      'mailkeep_fleet_room_accounts 50',
      'mailkeep_fleet_accounts{state="active"} 1',
      'mailkeep_fleet_worker_shards{state="held"} 4',
      'mailkeep_fleet_shard_shipped_age_seconds{shard="2"} 1.5',
    ]),
  );
  expect(text).not.toMatch(/anna|ben|acme|m1|m3|example/);
  // Each metric is declared once.
  const declared = lines.filter((line) => line.startsWith('# TYPE'));
  expect(new Set(declared).size).toBe(declared.length);
});

test('what cannot be asked is absent, and counted as a failure', async () => {
  const counted: string[] = [];
  const one = health();
  const log = one.counting({ ...silent, fail: (_, text) => counted.push(text) } as DaemonLog);
  log.fail('error', 'shard 1 failed', new MailkeepError('disk', 'shard-daemon-ended', {}));
  log.fail('error', 'shard 1 failed', Object.assign(new Error('x'), { code: 'ENOSPC' }));
  const text = await one.answers.metrics(false);
  expect(text).toContain('mailkeep_fleet_failures_total{code="shard-daemon-ended"} 1');
  expect(text).not.toContain('\nmailkeep_fleet_purges_waiting ');
  expect(text).not.toContain('\nmailkeep_fleet_sessions ');
  expect(counted).toHaveLength(2);
});

test('a shard that fails or is not shipped is named, and fails a check with a longest age', () => {
  const one = health();
  const { live, ready } = one.answers;
  expect([live().ok, ready(null).ok]).toEqual([true, false]);
  const shown = { id: 'one', isRenewed: true, rows: ROWS };
  one.show({ ...shown, shards: [shard(1, null)] });
  expect([ready(null).ok, ready(1_501).ok, ready(1_499).ok]).toEqual([true, true, false]);
  const failure = { code: 'disk-full', since: '2026-11-30T07:00:00.000Z' };
  one.show({ ...shown, shards: [shard(1, null, { failure })] });
  expect([live().ok, ready(null).ok, ready(60_000).ok]).toEqual([true, true, false]);
  expect(ready(null)).toMatchObject({
    phase: 'ready',
    shards: [{ shard: 1, open: true, running: true, failing: failure, shippedSeconds: 1.5 }],
    failing: [{ shard: 2, code: 'disk-full', node: 'two' }],
  });
  one.show({ ...shown, isRenewed: false, shards: [] });
  expect(ready(null)).toMatchObject({ ok: false, phase: 'session-lost' });
  one.show(undefined);
  expect(ready(null)).toMatchObject({ ok: false, phase: 'starting' });
});
