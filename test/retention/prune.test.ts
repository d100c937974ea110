import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { acquireLock } from '../../src/archive/lock.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import { openState } from '../../src/core/state.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { onTerminal } from '../cli/surface.ts';
import { EVERY_SECOND, NEVER, RunningDaemon } from '../daemon/running-daemon.ts';
import { at, DAY, KEY, MAIL, raw, writePrunable } from './prunable-archive.ts';
import { idOf } from './purged-archive.ts';

let folder: string;
let data: string;
beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-prune-'));
  data = path.join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  await writePrunable(data);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(retention: ConfigInput['retention'], ...args: string[]) {
  return mailkeep(['prune', '--json', '--quiet', ...args, '--config', configure(retention)]);
}

function configure(retention: ConfigInput['retention'], more: Partial<ConfigInput> = {}): string {
  const config = path.join(folder, 'config.json');
  const content: ConfigInput = {
    accounts: [{ name: 'main', baseUrl: 'https://mail.example.org', token: 'secret' }],
    dataDir: data,
    ...(retention === undefined ? {} : { retention }),
    ...more,
  };
  writeFileSync(config, JSON.stringify(content), { mode: 0o600 });
  return config;
}

const POLICY = { endedAfterDays: 30 };
const gone = (stdout: string): unknown =>
  Object(jsonLines(stdout)[0])
    .list.map((one: { subject: string }) => one.subject.replace('subject', ''))
    .sort();

test('--yes needs --apply, and a terminal is asked', async () => {
  const config = configure(POLICY);
  expect((await run(POLICY, '--yes')).code).toBe(2);
  expect((await run(POLICY, '--dry-run', '--apply')).code).toBe(2);
  const declined = await onTerminal(['prune', '--apply', '--config', config], 'n\r');
  expect(declined.code).toBe(130);
  expect(declined.stderr).toContain('Would prune 3 messages');
  expect(gone((await run(POLICY, '--dry-run')).stdout)).toHaveLength(3);
  const asked = await onTerminal(['prune', '--apply', '--config', config], 'yes\r');
  expect(asked.code).toBe(0);
  expect(gone((await run(POLICY)).stdout)).toEqual([]);
});

test('it lists what may go and why the rest stays, and changes nothing', async () => {
  const output = await run(POLICY);
  expect(output.code).toBe(0);
  expect(gone(output.stdout)).toEqual(['drafted', 'legal', 'old']);
  expect(jsonLines(output.stdout)).toMatchObject([
    {
      applied: false,
      messages: 3,
      prune: [{ reason: 'ended', messages: 3 }],
      keep: expect.arrayContaining([
        expect.objectContaining({ reason: 'too-recent', messages: 1 }),
        expect.objectContaining({ reason: 'not-confirmed', messages: 1 }),
      ]),
    },
  ]);
  expect((await run(undefined)).stdout).toContain('"messages":0');
  const unasked = await mailkeep(['prune', '--config', configure(undefined)]);
  expect(unasked.stderr).toContain('no retention policy: everything is kept');
  expect(gone((await run({ draftsAfterDays: 30 })).stdout)).toEqual(['drafted']);
  expect(gone((await run({ ...POLICY, keepAtLeast: 2 })).stdout)).toEqual(['old']);
});

test('--apply takes it out; the chain holds, and the rest is as it was', async () => {
  const lock = acquireLock(data);
  expect((await run(POLICY, '--apply')).code).toBe(5);
  lock.release();
  // A hold that asks a query waits until everything can be searched.
  const hold = [{ query: '@case' }];
  const save = ['search', '--save', 'case', 'subject:legalsubject', '--data', data];
  expect((await mailkeep(save)).code).toBe(0);
  const early = await run({ ...POLICY, hold }, '--apply');
  expect([early.code, early.stderr]).toMatchObject([
    4,
    expect.stringContaining('retention-not-indexed'),
  ]);
  expect((await mailkeep(['rebuild', '--data', data])).code).toBe(0);
  for (const query of ['subject:(', 'in:Nowhere', '@unsaved']) {
    const wrong = await run({ ...POLICY, hold: [{ query }] }, '--apply');
    expect([query, wrong.code, wrong.stderr]).toMatchObject([
      query,
      2,
      expect.stringContaining('retention-bad-hold'),
    ]);
  }
  const done = await run({ ...POLICY, hold }, '--apply');
  expect([done.code, done.stderr]).toEqual([0, '']);
  expect(gone(done.stdout)).toEqual(['drafted', 'old']);
  const verified = await mailkeep(['verify', '--json', '--data', data]);
  expect([verified.code, jsonLines(verified.stdout)]).toMatchObject([0, [{ ok: true }]]);
  for (const name of MAIL) {
    const shown = await mailkeep(['show', idOf(raw(name)), '--raw', '--data', data]);
    const pruned = ['old', 'drafted'].includes(name);
    expect([name, shown.code]).toEqual([name, pruned ? 2 : 0]);
    if (!pruned) expect(shown.bytes.equals(raw(name))).toBe(true);
  }
  const again = await run({ ...POLICY, hold }, '--apply');
  expect([again.code, gone(again.stdout)]).toEqual([0, []]);
  const wholeMailbox = await run({ ...POLICY, hold: [{ mailbox: 'ada@*' }] }, '--apply');
  expect(gone(wholeMailbox.stdout)).toEqual([]);
});

test('without a policy nothing goes, and only that is reported', async () => {
  const output = await mailkeep(['prune', '--apply', '--config', configure(undefined)]);
  expect([output.code, output.stdout.split('\n').map((line) => line.trim())]).toEqual([
    0,
    [
      'Pruned 0 messages, 0 B.',
      'Keeps 5 messages that were deleted everywhere:',
      '5      325 B  no rule allows it',
      '',
    ],
  ]);
});

test('nothing goes from a mailbox that no account lists, nor by a clock that is off', async () => {
  const state = openState(data);
  state.set('account-mailboxes', JSON.stringify(['main', KEY.host]), [
    { resourceId: KEY.mailbox, address: 'ada@example.org', unreachableSince: 1 },
  ]);
  state.close();
  const unreachable = await run(POLICY, '--apply');
  expect([unreachable.code, gone(unreachable.stdout)]).toEqual([0, []]);
  expect(unreachable.stdout).toContain('"unreachable"');
  const log = await openLogWriter({ dir: data, now: () => Date.now() + DAY });
  const batch = log.newBatch();
  batch.addFact({ fact: 'held', ...at('INBOX', 1), held: false });
  await log.commit(batch);
  await log.close();
  const behind = await run(POLICY, '--apply');
  expect([behind.code, behind.stderr]).toMatchObject([
    4,
    expect.stringContaining('before the last commit'),
  ]);
});

test('a daemon prunes by the clock, and keeps running; without a schedule it never does', async () => {
  const never = { sync: NEVER, sweep: NEVER, verify: NEVER };
  // Nobody answers there: what is pruned was known before.
  const accounts = [{ name: 'main', baseUrl: 'http://127.0.0.1:1', token: 'secret' }];
  const config = configure(POLICY, { accounts, schedule: never });
  expect((await mailkeep(['rebuild', '--data', data])).code).toBe(0);
  const daemon = new RunningDaemon({ folder, config, data });
  try {
    await daemon.run('sync');
    expect((await daemon.status()).schedule.find(({ name }) => name === 'prune')?.nextAt).toBe(
      null,
    );
    // The log states what prevents pruning, but no names: the query of a hold contains some.
    const schedule = { ...never, prune: EVERY_SECOND };
    const hold = [{ query: 'from:ada@example.org asof:2026-01-01' }];
    configure({ ...POLICY, hold }, { accounts, schedule });
    daemon.signal('SIGHUP');
    const kept = await daemon.line(({ msg }) => msg.startsWith('nothing more could be pruned'));
    expect(kept).toMatchObject({ level: 'error', code: 'retention-bad-hold' });
    expect(JSON.stringify(daemon.lines)).not.toContain('ada@example.org');
    configure(POLICY, { accounts, schedule });
    daemon.signal('SIGHUP');
    const first = await daemon.message('pruning finished');
    expect(first).toMatchObject({ level: 'info', messages: 3, segments: 1 });
    const second = await daemon.message('pruning finished', daemon.lines.length);
    expect(second).toMatchObject({ messages: 0, segments: 0 });
    expect(await daemon.end()).toBe(0);
  } finally {
    daemon.child.kill('SIGKILL');
    await daemon.ended;
  }
  const verified = await mailkeep(['verify', '--json', '--data', data]);
  expect([verified.code, jsonLines(verified.stdout)]).toMatchObject([0, [{ ok: true }]]);
  const shown = await mailkeep(['show', idOf(raw('old')), '--raw', '--data', data]);
  expect(shown.code).toBe(2);
});

test('what was pruned may be forgotten as well, so that it does not come back', async () => {
  const catalog = () => openCatalog(data);
  const id = idOf(raw('old'));
  const reason = async () => {
    const opened = await catalog();
    try {
      return opened.messages.purgedFor(id);
    } finally {
      opened.close();
    }
  };
  expect((await run(POLICY, '--apply')).code).toBe(0);
  expect(await reason()).toBe('pruned');
  const forgotten = await mailkeep(['forget', id, '--yes', '--json', '--data', data]);
  expect([forgotten.code, jsonLines(forgotten.stdout)]).toMatchObject([0, [{ forgotten: [id] }]]);
  expect(await reason()).toBe('forgotten');
  expect((await mailkeep(['verify', '--quiet', '--data', data])).code).toBe(0);
});
