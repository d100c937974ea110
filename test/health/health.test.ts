import { afterEach, expect, test } from 'vitest';
import type { KnownDamage, VerificationFacts } from '../../src/core/state.ts';
import { type KnownCopy, UNKNOWN_COPY } from '../../src/core/state-runs.ts';
import {
  type HealthServer,
  type MeasuredStatus,
  Metrics,
  startHealthServer,
} from '../../src/daemon/metrics.ts';
import type { MailboxStatus } from '../../src/verify/archive-status.ts';
import { type CopyStatus, copyStatus } from '../../src/verify/copy-facts.ts';
import type { RunReport } from '../../src/verify/facts.ts';
import { DaemonState, ShortCache } from '../../src/verify/facts.ts';
import { verificationStatus } from '../../src/verify/verification.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const HOUR = 3_600_000;

function mailbox(resourceId: string, more: Partial<MailboxStatus> = {}): MailboxStatus {
  return {
    host: 'mail.example.com',
    resourceId,
    address: `${resourceId.toLowerCase()}@example.org`,
    unwatched: false,
    provenAt: iso(NOW - 60_000),
    complete: true,
    certifiedAt: iso(NOW - HOUR),
    messages: 12,
    quarantined: 0,
    held: 0,
    ...{ unread: 0, ended: 0, quota: null, suspendedSince: null, leftBehindAt: null, folders: [] },
    ...more,
  };
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

const VERIFICATION: VerificationFacts = {
  ...{ at: NOW - HOUR, mode: 'sample', checked: 5, of: 20, fullAt: NOW - 2 * HOUR },
  ...{ ok: true, damage: null, drill: null },
};

function archive(...mailboxes: MailboxStatus[]): MeasuredStatus {
  const budget = { announcedPerMinute: null, learnedPerMinute: null, heldUntil: null };
  return {
    messages: 20,
    bytes: 5_000,
    logBytes: 3_000,
    catalogBytes: 1_000,
    pending: 1,
    traffic: [],
    budget: [
      {
        ...{ ...budget, gate: 'mail.example.com main' },
        ...{ learnedPerMinute: 42, heldUntil: iso(NOW + 5_000) },
      },
      { ...budget, gate: 'mail.example.com other' },
    ],
    mailboxes,
    verification: verificationStatus(VERIFICATION),
  };
}

function run(more: Partial<RunReport> = {}): RunReport {
  return {
    kind: 'sync',
    startedAt: NOW - 3_000,
    endedAt: NOW,
    outcome: 'done',
    failures: [],
    accounts: ['main'],
    mailboxes: [],
    counts: { added: 3, ended: 1, bytes: 900, requests: 7 },
    ...more,
  };
}

let open: HealthServer | undefined;
afterEach(() => open?.close());

/** A server over a status that the test holds; `get` gives status and text. */
async function serve(
  status: () => MeasuredStatus,
  damage: KnownDamage | null = null,
  copies: () => readonly CopyStatus[] = () => [],
) {
  const state = new DaemonState(NOW - 10_000);
  const now = () => NOW;
  const errors: unknown[] = [];
  const metrics = new Metrics({ version: '9.9.9', now, status, copies });
  open = await startHealthServer({
    listen: { host: '127.0.0.1', port: 0 },
    hosts: [],
    state,
    metrics,
    status,
    known: () => ({
      verification: verificationStatus({ ...VERIFICATION, ok: damage === null, damage }),
      copies: copies(),
    }),
    now,
    onError: (error) => errors.push(error),
  });
  const { port } = open.address;
  const get = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: response.status, text: await response.text() };
  };
  return { state, metrics, get, errors };
}

test('it is alive from the start, ready when the daemon says so, and neither after a failure', async () => {
  const { state, get } = await serve(() => archive());
  const codes = async () => [(await get('/healthz')).status, (await get('/readyz')).status];
  expect(await codes()).toEqual([200, 503]);
  state.enter('ready');
  expect(await codes()).toEqual([200, 200]);
  state.onRun(run());
  state.onRun(
    run({ kind: 'sweep', outcome: 'failed', endedAt: NOW - HOUR, startedAt: NOW - HOUR }),
  );
  expect(JSON.parse((await get('/healthz')).text)).toEqual({
    ok: true,
    phase: 'ready',
    uptimeSeconds: 10,
    runs: [
      {
        kind: 'sweep',
        endedAt: '2026-11-20T11:00:00.000Z',
        durationMs: 0,
        outcome: 'failed',
        failures: 0,
      },
      {
        kind: 'sync',
        endedAt: '2026-11-20T12:00:00.000Z',
        durationMs: 3_000,
        outcome: 'done',
        failures: 0,
      },
    ],
    damage: null,
    copies: [],
  });
  state.enter('stopping');
  expect(await codes()).toEqual([200, 503]);
  state.enter('failed');
  state.enter('ready');
  expect(await codes()).toEqual([503, 503]);
});

test('a longest age names the mailboxes that are older, by resource id', async () => {
  let status = archive(
    mailbox('AC1'),
    mailbox('AC2', { provenAt: iso(NOW - 27 * HOUR) }),
    mailbox('AC3', { provenAt: null }),
  );
  const { state, get } = await serve(() => status);
  state.enter('ready');
  const late = await get('/readyz?max-age=26h');
  expect([late.status, JSON.parse(late.text).stale]).toEqual([503, ['AC2', 'AC3']]);
  expect(late.text).not.toContain('@');
  status = archive(mailbox('AC1', { provenAt: iso(NOW - 26 * HOUR) }));
  expect((await get('/readyz?max-age=26h')).status).toBe(200);
  status = archive();
  expect((await get('/readyz?max-age=26h')).status).toBe(503);
  expect((await get('/readyz?max-age=soon')).status).toBe(400);
});

test('known damage is no reason to restart or to send nothing here; monitoring with a longest age fails', async () => {
  const finding = { what: 'message', id: 'abc', text: 'message abc' };
  const damage = { since: NOW - HOUR, found: 3, findings: [finding] };
  const { state, get } = await serve(() => archive(mailbox('AC1')), damage);
  state.enter('ready');
  for (const [path, status] of [
    ['/healthz', 200],
    ['/readyz', 200],
    ['/readyz?max-age=26h', 503],
  ] as const) {
    const answer = await get(path);
    expect([path, answer.status]).toEqual([path, status]);
    expect(JSON.parse(answer.text)).toMatchObject({
      ok: status === 200,
      damage: { since: '2026-11-20T11:00:00.000Z', findings: 3 },
    });
    // Which message it is stays out of monitoring.
    expect(answer.text).not.toContain('abc');
  }
});

/** A copy of every six hours that was made so many hours ago, four commits behind the archive. */
function copy(hours: number, more: Partial<KnownCopy> = {}, to = 's3://bucket/mail') {
  const known = {
    ...UNKNOWN_COPY,
    made: { at: NOW - hours * HOUR, commit: 7, encrypted: true },
    plan: { everyMs: 6 * HOUR, since: NOW - 100 * HOUR, currentAt: 0 },
    ...more,
  };
  return copyStatus(to, known, 11, NOW);
}

test('copies that are stale or damaged fail a check with a longest age, and no other', async () => {
  let found = copy(18);
  const { state, get } = await serve(
    () => archive(mailbox('AC1')),
    null,
    () => [found],
  );
  state.enter('ready');
  const codes = async () => {
    const answers = [];
    for (const at of ['/healthz', '/readyz', '/readyz?max-age=26h']) answers.push(await get(at));
    return answers.map(({ status }) => status);
  };
  expect(await codes()).toEqual([200, 200, 200]);
  found = copy(19, {
    failed: { since: NOW - HOUR, at: NOW, tries: 3, code: 'offsite-in-use', text: 'Another.' },
  });
  expect(await codes()).toEqual([200, 200, 503]);
  expect(JSON.parse((await get('/healthz')).text).copies).toEqual([
    {
      ...{ to: 's3://bucket/mail', copiedAt: '2026-11-19T17:00:00.000Z', behind: 4, stale: true },
      ...{ failing: 'offsite-in-use', damaged: false },
    },
  ]);
  // What lacks nothing is not stale, and what lacked nothing lately is not stale yet.
  found = copy(0, { made: { at: NOW - 1_000 * HOUR, commit: 11, encrypted: true } });
  expect(await codes()).toEqual([200, 200, 200]);
  found = copy(1_000, { plan: { everyMs: 6 * HOUR, since: 0, currentAt: NOW - 18 * HOUR } });
  expect(await codes()).toEqual([200, 200, 200]);
  found = copy(1_000, { plan: null });
  expect(await codes()).toEqual([200, 200, 200]);
  found = copy(1, { damage: { since: NOW, found: 2, text: 'Segment 1 …', names: [] } });
  expect(await codes()).toEqual([200, 200, 503]);
});

test('metrics show age, coverage and damage of each copy', async () => {
  const checked = { at: NOW - HOUR, checked: 1, of: 9, unit: 'segment', found: 1 } as const;
  const { get } = await serve(archive, null, () => [
    copy(20, {
      checked: { ...checked, fullAt: null },
      damage: { since: NOW - HOUR, found: 1, text: 'x', names: [] },
      failed: { since: NOW, at: NOW, tries: 5, code: 'c', text: 'secret words' },
    }),
    copy(0, { made: null }, '/media/disk'),
  ]);
  const { text } = await get('/metrics');
  const lines = text.split('\n').filter((line) => line.startsWith('mailkeep_copy_'));
  expect(lines).toEqual([
    'mailkeep_copy_age_seconds{copy="s3://bucket/mail"} 72000',
    'mailkeep_copy_age_seconds{copy="/media/disk"} +Inf',
    'mailkeep_copy_commit{copy="s3://bucket/mail"} 7',
    'mailkeep_copy_commits_behind{copy="s3://bucket/mail"} 4',
    'mailkeep_copy_stale{copy="s3://bucket/mail"} 1',
    'mailkeep_copy_stale{copy="/media/disk"} 1',
    'mailkeep_copy_failed_attempts{copy="s3://bucket/mail"} 5',
    'mailkeep_copy_failed_attempts{copy="/media/disk"} 0',
    `mailkeep_copy_last_verification_timestamp_seconds{copy="s3://bucket/mail"} ${(NOW - HOUR) / 1_000}`,
    'mailkeep_copy_damage_findings{copy="s3://bucket/mail"} 1',
    'mailkeep_copy_damage_findings{copy="/media/disk"} 0',
  ]);
  expect(text).not.toContain('secret words');
});

test('metrics cover the archive, runs and requests, and name no address unless configured', async () => {
  const { metrics, get } = await serve(() =>
    archive(
      mailbox('AC1', { quarantined: 2, held: 3 }),
      mailbox('AC2', { provenAt: null, certifiedAt: null }),
    ),
  );
  metrics.onRun(
    run({
      failures: [
        {
          account: 'main',
          mailbox: 'x@y.example',
          family: 'origin',
          code: 'origin.status',
          message: 'secret words',
        },
      ],
    }),
  );
  metrics.request({
    account: 'main',
    surface: 'mailbox',
    operation: 'listFolders',
    status: 200,
    ms: 80,
  });
  metrics.request({
    account: 'main',
    surface: 'mailbox',
    operation: 'listFolders',
    status: 0,
    ms: 80,
  });
  metrics.webhookRequest('delivery');
  metrics.webhookRequest('secret', 4);
  metrics.notification('url', 'failed');
  const { status, text } = await get('/metrics');
  expect(status).toBe(200);
  const lines = text.split('\n');
  const ac1 = 'host="mail.example.com",mailbox="AC1"';
  for (const line of [
    `mailkeep_mailbox_freshness_seconds{${ac1}} 60`,
    'mailkeep_mailbox_freshness_seconds{host="mail.example.com",mailbox="AC2"} +Inf',
    `mailkeep_mailbox_messages{${ac1}} 12`,
    `mailkeep_mailbox_quarantined{${ac1}} 2`,
    `mailkeep_mailbox_held{${ac1}} 3`,
    `mailkeep_mailbox_last_certificate_timestamp_seconds{${ac1}} ${(NOW - HOUR) / 1_000}`,
    'mailkeep_messages 20',
    'mailkeep_message_bytes 5000',
    'mailkeep_log_bytes 3000',
    'mailkeep_messages_not_searchable 1',
    `mailkeep_last_verification_timestamp_seconds ${(NOW - 2 * HOUR) / 1_000}`,
    'mailkeep_last_verification_ok 1',
    'mailkeep_last_verification_checked_ratio 0.25',
    'mailkeep_damage_findings 0',
    'mailkeep_limiter_requests_per_minute{gate="mail.example.com main"} 42',
    'mailkeep_limiter_held_seconds{gate="mail.example.com main"} 5',
    'mailkeep_requests_total{account="main",surface="mailbox",operation="listFolders",status="200"} 1',
    'mailkeep_requests_total{account="main",surface="mailbox",operation="listFolders",status="none"} 1',
    'mailkeep_runs_total{kind="sync",outcome="done"} 1',
    'mailkeep_run_duration_seconds_sum{kind="sync"} 3',
    `mailkeep_last_run_timestamp_seconds{kind="sync",outcome="done"} ${NOW / 1_000}`,
    'mailkeep_failures_total{account="main",code="origin.status"} 1',
    'mailkeep_fetched_bytes_total 900',
    'mailkeep_webhook_requests_total{outcome="secret"} 4',
    'mailkeep_notifications_total{channel="url",outcome="failed"} 1',
    'mailkeep_build_info{version="9.9.9"} 1',
  ]) {
    expect(lines).toContain(line);
  }
  expect(text).not.toMatch(/last_certificate_timestamp_seconds\{[^}]*AC2/);
  for (const word of ['@', 'secret words']) expect(text).not.toContain(word);
  const named = await get('/metrics?addresses=1');
  expect(named.text.split('\n')).toContain(
    'mailkeep_mailbox_info{host="mail.example.com",mailbox="AC1",address="ac1@example.org"} 1',
  );
  expect((await get('/metrics')).text).not.toContain('mailkeep_mailbox_info');
});

test('a catalog that cannot be read is reported, and answered without detail', async () => {
  const { get, errors } = await serve(() => {
    throw new Error('catalog at /secret/place');
  });
  const { status, text } = await get('/metrics');
  expect(status).toBe(500);
  expect(text).not.toContain('/secret/place');
  expect(errors).toHaveLength(1);
  expect((await get('/elsewhere')).status).toBe(404);
});

test('an answer is remembered for a while, and requested again when the clock was set back', () => {
  let [time, asked] = [NOW, 0];
  const facts = new ShortCache(
    1_000,
    () => time,
    () => ++asked,
  );
  expect([facts.get(), facts.get()]).toEqual([1, 1]);
  time += 1_000;
  expect(facts.get()).toBe(2);
  time -= HOUR;
  expect(facts.get()).toBe(3);
});
