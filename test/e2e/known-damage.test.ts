import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';
import { type Receiver, receive } from '../sandbox/webhooks/receiver.ts';

let sandbox: Sandbox;
let receiver: Receiver;
let place: Workplace;
let running: RunningDaemon | undefined;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 12, mail: { messages: 40 } });
  receiver = await receive();
  place = daemonWorkplace(sandbox, (config) => ({
    ...config,
    health: { listen: '127.0.0.1:0' },
    notify: { url: receiver.url },
  }));
});
afterEach(async () => {
  running?.child.kill('SIGKILL');
  await running?.ended;
  await Promise.all([sandbox.close(), receiver.close()]);
  rmSync(place.folder, { recursive: true, force: true });
});

const condition = z.object({
  ok: z.boolean(),
  damage: z.object({ since: z.string(), findings: z.number() }).nullable(),
});
const notification = z.object({
  event: z.string(),
  failing: z.array(z.object({ code: z.string() })),
  recovered: z.array(z.object({ code: z.string() })),
});
const known = z.object({ found: z.number(), findings: z.array(z.object({ text: z.string() })) });
const shown = {
  status: z.object({ verification: known.extend({ ok: z.boolean() }).nullable() }),
  doctor: z.object({ checks: z.array(z.object({ name: z.string(), state: z.string() })) }),
  sync: z.object({ damage: known.nullable() }),
};

/** Collects everything that shows the archive's health while a daemon runs. `from`: notifications seen before. */
async function everywhere(from: number) {
  const daemon = new RunningDaemon(place);
  running = daemon;
  const { port } = await daemon.message('health listens');
  await daemon.run('sync');
  // Notifications are minutes apart: the first of this daemon finds whatever there is to report due.
  daemon.sleep(10 * 60_000);
  const command = async (args: readonly string[]) => {
    const { code, stdout, stderr } = await mailkeep([...args, '--json', '--config', place.config]);
    return { code, json: z.looseObject({}).parse(JSON.parse(stdout)), stderr };
  };
  const [status, doctor] = await Promise.all([command(['status']), command(['doctor'])]);
  const sync = await command(['sync']);
  const plan = await command(['sync', '--dry-run']);
  const get = (at: string) => fetch(`http://127.0.0.1:${String(port)}${at}`);
  const probes = [];
  for (const at of ['/healthz', '/readyz', '/readyz?max-age=1h']) {
    const answer = await get(at);
    const { damage } = condition.parse(await answer.json());
    probes.push([at, answer.status, damage?.findings ?? null]);
  }
  const scraped = await (await get('/metrics')).text();
  const checks = shown.doctor.parse(doctor.json).checks;
  // The result of a pass that began after the sleep was observed before the daemon ends, and sent while it ends.
  expect(await daemon.end()).toBe(0);
  running = undefined;
  const { verification } = shown.status.parse(status.json);
  return {
    codes: { status: status.code, doctor: doctor.code, sync: sync.code, plan: plan.code },
    found: {
      status: verification?.found ?? null,
      sync: shown.sync.parse(sync.json).damage?.found ?? null,
      plan: shown.sync.parse(plan.json).damage?.found ?? null,
      metrics: Number(/^mailkeep_damage_findings (.*)$/m.exec(scraped)?.[1] ?? Number.NaN),
    },
    metric: /^mailkeep_last_verification_ok (.*)$/m.exec(scraped)?.[1],
    doctor: checks.find(({ name }) => name === 'verification')?.state,
    probes,
    notified: receiver.got
      .slice(from)
      .map(({ body }) => notification.parse(JSON.parse(body)))
      .filter(({ event }) => event !== 'alive')
      .map(({ event, failing, recovered }) => [
        event,
        ...[...failing, ...recovered].map(({ code }) => code),
      ]),
  };
}

test('status, doctor, sync, metrics, probes and notifications agree about one flipped byte, before, after and repaired', async () => {
  expect((await mailkeep(['sync', '--config', place.config])).code).toBe(0);
  // Damage in the segment that is written to would stop every pass by itself.
  const writer = await openLogWriter({ dir: place.data, now: Date.now });
  await writer.rollIfLarger(0);
  await writer.close();
  expect((await mailkeep(['sync', '--config', place.config])).code).toBe(0);
  const verify = (...more: string[]) => mailkeep(['verify', ...more, '--data', place.data]);
  expect((await verify()).code).toBe(0);
  const sound = {
    codes: { status: 0, doctor: 0, sync: 0, plan: 0 },
    found: { status: 0, sync: null, plan: null, metrics: 0 },
    metric: '1',
    doctor: 'ok',
    probes: [
      ['/healthz', 200, null],
      ['/readyz', 200, null],
      ['/readyz?max-age=1h', 200, null],
    ],
  };
  expect(await everywhere(receiver.got.length)).toEqual({ ...sound, notified: [] });

  const folder = path.join(place.data, 'log');
  const files = readdirSync(folder).map((name) => path.join(folder, name));
  const [file = ''] = files.sort((a, b) => statSync(b).size - statSync(a).size);
  const bytes = readFileSync(file);
  const at = Math.floor(bytes.length / 3);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(file, bytes);
  const verified = await verify('--json');
  expect(verified.code).toBe(3);
  const { found } = z.object({ found: z.number() }).parse(JSON.parse(verified.stdout));
  expect(found).toBeGreaterThan(0);
  expect(await everywhere(receiver.got.length)).toEqual({
    codes: { status: 3, doctor: 3, sync: 3, plan: 3 },
    found: { status: found, sync: found, plan: found, metrics: found },
    metric: '0',
    doctor: 'failed',
    probes: [
      ['/healthz', 200, found],
      ['/readyz', 200, found],
      ['/readyz?max-age=1h', 503, found],
    ],
    notified: [['failing', 'archive-damaged']],
  });

  expect((await verify('--repair')).code).toBe(0);
  expect(await everywhere(receiver.got.length)).toEqual({
    ...sound,
    notified: [['recovered', 'archive-damaged']],
  });
}, 300_000);
