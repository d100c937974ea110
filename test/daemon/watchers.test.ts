import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import { openState } from '../../src/core/state.ts';
import { mailkeep } from '../cli/child.ts';
import { type Receiver, receive } from '../sandbox/webhooks/receiver.ts';
import { DaemonTests, EVERY_SECOND, type RunningDaemon } from './running-daemon.ts';

const HOUR = 3_600_000;

const work = new DaemonTests({ seed: 9, mail: { messages: 20 } });
let receiver: Receiver;
beforeEach(async () => {
  receiver = await receive();
});
afterEach(() => receiver.close());

function started(change: (config: ConfigInput) => ConfigInput): RunningDaemon {
  work.configure(change);
  return work.daemon();
}

/** Writes the configuration again, changed, and has it read. */
function reread(at: RunningDaemon, change: object): void {
  const config = z.looseObject({}).parse(JSON.parse(readFileSync(work.place.config, 'utf8')));
  writeFileSync(work.place.config, JSON.stringify({ ...config, ...change }));
  at.signal('SIGHUP');
}

const item = z.object({ kind: z.string(), name: z.string(), code: z.string() });
const notification = z.object({
  event: z.string(),
  ok: z.boolean(),
  summary: z.string(),
  failing: z.array(item),
  recovered: z.array(item),
});
const notified = (): z.output<typeof notification>[] =>
  receiver.got.map(({ body }) => notification.parse(JSON.parse(body)));

describe('notifications', () => {
  it('notify notify.url that all is well, of a failure, and of recovery across a restart', async () => {
    const first = started((config) => ({ ...config, notify: { url: receiver.url } }));
    await first.run('sync');
    await receiver.count(1);
    work.sandbox.service.tokens.revoke(work.sandbox.tokens.mailbox, Date.now());
    expect((await mailkeep(['sync', '--quiet', '--config', work.place.config])).code).toBe(6);
    expect(await first.line((line) => line.event === 'failing')).toMatchObject({
      msg: 'notified',
      channel: 'url',
    });
    await receiver.count(2);
    expect(await first.end()).toBe(0);
    const [alive, failing] = notified();
    expect(alive).toMatchObject({ event: 'alive', ok: true });
    expect(failing).toMatchObject({
      event: 'failing',
      ok: false,
      failing: [{ kind: 'account', name: 'main', code: 'auth.refused' }],
    });
    // Notifications are five minutes apart; let them have passed.
    const state = openState(work.place.data);
    const shape = z.looseObject({ triedAt: z.number() });
    const kept = shape.parse(state.get('notify', 'url'));
    state.set('notify', 'url', { ...kept, triedAt: kept.triedAt - 300_000 });
    state.close();
    const [known] = work.sandbox.service.store.mailboxes.values();
    work.sandbox.service.tokens.put('mbx_another-token', {
      surface: 'mailbox',
      orderId: known?.orderId ?? '',
      mailboxes: null,
      expiresAt: null,
      revokedAt: null,
    });
    writeFileSync(path.join(work.place.folder, 'token'), 'mbx_another-token\n', { mode: 0o600 });
    const second = work.daemon();
    await second.line((line) => line.msg === 'notified' && line.event === 'recovered');
    const recovered = notified().find(({ event }) => event === 'recovered');
    expect(recovered).toMatchObject({
      ok: true,
      failing: [],
      recovered: [{ kind: 'account', name: 'main', code: 'auth.refused' }],
    });
    expect(recovered?.summary).toBe('mailkeep: works again: account main');
  });
});

it('warns once of a mailbox that is nearly full, and calls nothing broken', async () => {
  Object.assign(work.sandbox.service.settings, { messageQuota: 21 });
  const at = started((config) => ({
    ...config,
    notify: { url: receiver.url },
    quota: { warnPercent: 40 },
    health: { listen: '127.0.0.1:0' },
  }));
  await at.run('sync');
  // What may recover by itself is reported after a quarter of an hour.
  at.sleep(20 * 60_000);
  const again = ['sync', '--quiet', '--config', work.place.config];
  expect((await mailkeep(again)).code).toBe(0);
  expect(await at.line((line) => line.event === 'warning')).toMatchObject({ msg: 'notified' });
  const warned = notified().filter(({ event }) => event === 'warning');
  const [mailbox] = work.sandbox.mailboxes;
  expect(warned).toMatchObject([
    { ok: true, failing: [{ kind: 'quota', name: mailbox?.address, code: 'mailbox-nearly-full' }] },
  ]);
  expect(warned[0]?.summary).toMatch(/^mailkeep: warning: .*% full \(messages\)/);
  // Two days later it is no news, and signs of life go on.
  at.sleep(48 * 60 * 60_000);
  expect((await mailkeep(again)).code).toBe(0);
  expect((await mailkeep(again)).code).toBe(0);
  await at.message('health listens');
  const { port } = await at.message('health listens');
  const metrics = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  expect(metrics).toMatch(/^mailkeep_mailbox_quota_used_ratio\{.*\} 0\.\d+$/m);
  expect(await at.end()).toBe(0);
  expect(notified().filter(({ event }) => event === 'warning')).toHaveLength(1);
  expect(notified().at(-1)?.event).toBe('alive');
});

describe('the watch over webhooks', () => {
  it('reports that one is paused, while the schedule still finds mail, and that it delivers again', async () => {
    const at = started((config) => ({
      ...config,
      accounts: config.accounts.map((account) => ({
        ...account,
        platform: { url: work.sandbox.platformUrl, token: work.sandbox.tokens.platform },
      })),
      webhook: { listen: '127.0.0.1:0' },
    }));
    const { port } = await at.message('webhooks are received');
    await at.run('sync');
    const url = `http://127.0.0.1:${String(port)}/webhook`;
    const mailbox = work.sandbox.mailboxes[0]?.address ?? '';
    const config = ['--config', work.place.config];
    const args = ['webhooks', 'create', '--mailbox', mailbox, '--url', url, '--json', ...config];
    const created = await mailkeep(args);
    const { id } = z.object({ id: z.string() }).parse(JSON.parse(created.stdout));
    expect((await mailkeep(['webhooks', 'pause', id, ...config])).code).toBe(0);
    reread(at, { schedule: { sync: EVERY_SECOND } });
    const text = 'a webhook does not deliver; the schedule finds mail that it does not announce';
    const said = await at.message(text);
    expect(said).toMatchObject({ level: 'warn', webhook: id, state: 'off', status: 'paused' });
    const from = at.lines.length;
    work.arrive('unannounced');
    await at.line((line) => line.kind === 'sync' && line.added === 1, from);
    expect((await mailkeep(['webhooks', 'resume', id, ...config])).code).toBe(0);
    at.signal('SIGHUP');
    expect(await at.message('a webhook delivers again')).toMatchObject({ webhook: id });
    expect(await at.end()).toBe(0);
  });
});

describe('verification by the clock', () => {
  it('is remembered; damage is an error in the log and a notification, and passes go on', async () => {
    const at = started((config) => ({
      ...config,
      schedule: { ...config.schedule, verify: '0 4 * * *' },
      health: { listen: '127.0.0.1:0' },
      notify: { url: receiver.url },
    }));
    await at.run('sync');
    /** Lets a day pass, after which a reload makes it look what is due. */
    const nextDay = async (): Promise<void> => {
      const since = Date.parse((await at.status()).now);
      at.sleep(25 * HOUR);
      const passed = async () => Date.parse((await at.status()).now) - since;
      await expect.poll(passed).toBeGreaterThan(24 * HOUR);
      at.signal('SIGHUP');
    };
    await nextDay();
    const fine = await at.message('verification finished');
    expect(fine).toMatchObject({ level: 'info', found: 0, messages: 20 });
    const drilled = await at.message('drill finished');
    expect(drilled).toMatchObject({ level: 'info', found: 0, messages: 20 });
    const metrics = async (): Promise<string> => {
      const { port } = await at.message('health listens');
      return (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
    };
    expect(await metrics()).toMatch(/mailkeep_runs_total\{kind="verify",outcome="done"\}/);
    const folder = path.join(work.place.data, 'log');
    const [segment = ''] = readdirSync(folder).sort();
    const file = path.join(folder, segment);
    const bytes = readFileSync(file);
    const middle = Math.floor(bytes.length / 2);
    bytes[middle] = (bytes[middle] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    await nextDay();
    const damaged = await at.line((line) => line.msg.startsWith('the archive is damaged'));
    expect(damaged).toMatchObject({ level: 'error', found: expect.any(Number) });
    await at.line((line) => line.msg === 'notified' && line.event === 'failing');
    expect(notified().find(({ event }) => event === 'failing')?.failing).toEqual([
      { kind: 'run', name: 'verify', code: 'archive-damaged' },
    ]);
    expect(await metrics()).toMatch(/mailkeep_runs_total\{kind="verify",outcome="failed"\}/);
    const state = openState(work.place.data);
    expect(state.get('verification', 'last')).toMatchObject({ ok: false });
    state.close();
    const from = at.lines.length;
    work.arrive('after the damage');
    await at.hint({ resourceId: work.sandbox.mailboxes[0]?.resourceId });
    await at.line((line) => line.kind === 'hint' && line.added === 1, from);
    expect(await at.end()).toBe(0);
  });

  it('damage that another process finds, and its end, are in metrics and notifications', async () => {
    const at = started((config) => ({
      ...config,
      health: { listen: '127.0.0.1:0' },
      notify: { url: receiver.url },
    }));
    await at.run('sync');
    const { port } = await at.message('health listens');
    const ok = async (): Promise<string | undefined> => {
      const answer = await fetch(`http://127.0.0.1:${String(port)}/metrics`);
      return /^mailkeep_last_verification_ok (.*)$/m.exec(await answer.text())?.[1];
    };
    const pass = async (subject: string): Promise<void> => {
      const from = at.lines.length;
      work.arrive(subject);
      await at.hint({ resourceId: work.sandbox.mailboxes[0]?.resourceId });
      await at.line((line) => line.kind === 'hint' && line.added === 1, from);
    };
    const [segment = ''] = readdirSync(path.join(work.place.data, 'log'));
    const file = path.join(work.place.data, 'log', segment);
    const flip = (): void => {
      const bytes = readFileSync(file);
      bytes[1_000] = (bytes[1_000] ?? 0) ^ 1;
      writeFileSync(file, bytes);
    };
    flip();
    expect((await mailkeep(['verify', '--data', work.place.data])).code).toBe(3);
    await pass('after the damage');
    await at.line((line) => line.msg === 'notified' && line.event === 'failing');
    const damaged = { kind: 'run', name: 'verify', code: 'archive-damaged' };
    expect(notified().find(({ event }) => event === 'failing')?.failing).toEqual([damaged]);
    expect(await ok()).toBe('0');
    const handed = await mailkeep(['sync', '--config', work.place.config]);
    expect([handed.code, handed.stderr]).toEqual([3, expect.stringContaining('is damaged')]);

    flip();
    expect((await mailkeep(['verify', '--data', work.place.data])).code).toBe(0);
    // Notifications and scrapes are some minutes apart.
    at.sleep(10 * 60_000);
    await pass('after the repair');
    await at.line((line) => line.msg === 'notified' && line.event === 'recovered');
    expect(notified().find(({ event }) => event === 'recovered')?.recovered).toEqual([damaged]);
    expect(await ok()).toBe('1');
    expect((await mailkeep(['sync', '--config', work.place.config])).code).toBe(0);
    expect(await at.end()).toBe(0);
  });
});

it('takes another log level at once, and says what needs a restart', async () => {
  const at = started((config) => ({ ...config, health: { listen: '127.0.0.1:0' } }));
  await at.run('sync');
  reread(at, { health: null, log: { level: 'warn' } });
  await at.message('another health takes effect only after a restart');
  const from = at.lines.length;
  reread(at, { log: { level: 'debug' } });
  await at.message('configuration reloaded', from);
  // Read under `warn`, the first reading was visible only in its warnings.
  const readAnew = at.lines.filter(({ msg }) => msg === 'configuration reloaded');
  expect(readAnew).toHaveLength(1);
});
