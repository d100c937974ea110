import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import { mailkeep } from '../cli/child.ts';
import { DaemonTests, type RunningDaemon } from './running-daemon.ts';

const HOUR = 3_600_000;

const work = new DaemonTests({ seed: 11, mail: { messages: 12 } });

function workplaceWith(copies: ConfigInput['copies'], more: Partial<ConfigInput> = {}): void {
  work.configure((config) => ({ ...config, copies, ...more }));
}

function folder(name: string): string {
  return path.join(work.place.folder, name);
}

async function done(args: readonly string[], code = 0): Promise<string> {
  const ended = await mailkeep(args, { cwd: work.place.folder });
  expect([args, ended.code, ended.stderr]).toEqual([args, code, expect.any(String)]);
  return ended.stdout;
}

/** Something new comes, and the daemon notices: a pass ends, after which it looks what is due. */
async function announce(at: RunningDaemon, subject: string): Promise<void> {
  const uid = work.arrive(subject);
  await at.hint({ resourceId: work.sandbox.mailboxes[0]?.resourceId, uid });
}

/** A pass that finds nothing new, after which the daemon looks what is due. */
async function nudge(at: RunningDaemon): Promise<void> {
  await at.hint({ resourceId: work.sandbox.mailboxes[0]?.resourceId });
}

const statusShape = z.object({
  commit: z.object({ number: z.number() }),
  copies: z.array(z.looseObject({ to: z.string(), behind: z.number().nullable() })),
});

async function status() {
  return statusShape.parse(JSON.parse(await done(['status', '--json', '--data', work.place.data])));
}

async function copyFinished(at: RunningDaemon, name: string, from = 0) {
  return at.line((line) => line.msg === 'copy finished' && line.to === folder(name), from);
}

describe('the daemon copies', () => {
  it('after passes, when the interval has passed and something is new, encrypted or not', async () => {
    workplaceWith([
      { to: './plain', every: '1h', verify: { sample: 1 } },
      { to: './sealed', every: '1h', limitRate: '50M', verify: { sample: '1%', full: '30d' } },
    ]);
    await done(['sync', '--quiet', '--config', work.place.config]);
    const key = ['--recovery-key-file', folder('key.txt'), '--data', work.place.data];
    await done(['copy', 'init', '--to', folder('sealed'), ...key]);
    const at = work.daemon();
    await copyFinished(at, 'plain');
    await copyFinished(at, 'sealed');
    for (const name of ['plain', 'sealed']) {
      const fits = { to: folder(name), found: 0 };
      await at.line((line) => line.msg === 'copy verified' && line.to === fits.to);
    }
    const from = at.lines.length;
    await announce(at, 'second');
    await at.run('hint', from);
    const before = await status();
    expect(before.copies.map(({ to }) => to)).toEqual([folder('plain'), folder('sealed')]);
    // Their time has not come.
    expect(before.copies.every(({ behind }) => (behind ?? 0) > 0)).toBe(true);
    at.sleep(2 * HOUR);
    await nudge(at);
    await copyFinished(at, 'plain', from);
    await copyFinished(at, 'sealed', from);
    await at.line((line) => line.msg === 'copy verified' && line.to === folder('sealed'), from);
    expect(await at.end()).toBe(0);
    const after = await status();
    expect(after.copies).toMatchObject([
      {
        ...{ encrypted: false, commit: after.commit.number, behind: 0, everySeconds: 3_600 },
        ...{ stale: false, failure: null, damage: null },
        verified: { checked: 1, of: 1, unit: 'segment', found: 0 },
      },
      {
        ...{ encrypted: true, commit: after.commit.number, behind: 0, everySeconds: 3_600 },
        ...{ stale: false, failure: null, damage: null, verified: { found: 0 } },
      },
    ]);
    const listed = await done(['verify', '--data', folder('plain')]);
    expect(listed).toContain('Everything is as it was written.');
  });

  it('makes no readable copy where copies are to be encrypted', async () => {
    workplaceWith([{ to: './other', every: '1h', encrypt: true }]);
    await done(['sync', '--quiet', '--config', work.place.config]);
    const at = work.daemon();
    await at.line((line) => line.to === folder('other') && line.code === 'usage-invalid');
    expect(await at.end()).toBe(0);
    expect(existsSync(folder('other'))).toBe(false);
    // The same by hand.
    await done(['copy', '--to', folder('other'), '--encrypt', '--data', work.place.data], 2);
    expect(existsSync(folder('other'))).toBe(false);
  });

  it('tries a copy that fails again, later and later, and passes continue', async () => {
    workplaceWith([{ to: './sealed', every: '1h', verify: { sample: 2 } }]);
    await done(['sync', '--quiet', '--config', work.place.config]);
    const key = ['--recovery-key-file', folder('key.txt'), '--data', work.place.data];
    await done(['copy', 'init', '--to', folder('sealed'), '--write-only', ...key]);
    // As a disk that is not mounted: nothing readable may be written there.
    renameSync(folder('sealed'), folder('elsewhere'));
    const at = work.daemon();
    const failed = (from = 0) =>
      at.line((line) => line.msg === 'a copy failed; it is tried again', from);
    expect(await failed()).toMatchObject({ code: 'offsite-no-copy', exit: 2 });
    expect(existsSync(folder('sealed'))).toBe(false);
    let from = at.lines.length;
    at.sleep(HOUR);
    await announce(at, 'meanwhile');
    expect(await at.run('hint', from)).toMatchObject({ added: 1 });
    await failed(from);
    expect((await status()).copies).toMatchObject([
      {
        ...{ to: folder('sealed'), encrypted: null, copiedAt: null, commit: null, behind: null },
        failure: {
          tries: expect.any(Number),
          code: 'offsite-no-copy',
          message: expect.stringContaining('no copy'),
        },
      },
    ]);
    renameSync(folder('elsewhere'), folder('sealed'));
    from = at.lines.length;
    at.sleep(HOUR);
    await announce(at, 'mounted');
    await copyFinished(at, 'sealed', from);
    await at.message('copy verified', from);
    // Without a key that reads, the bytes of objects are compared with what was signed.
    expect((await status()).copies).toMatchObject([
      { failure: null, encrypted: true, verified: { unit: 'object', found: 0 } },
    ]);
    expect(await at.end()).toBe(0);
  });

  it('reports a copy that is stale, or whose disk has gone, and fills no other disk', async () => {
    workplaceWith([{ to: './plain', every: '1h' }], { health: { listen: '127.0.0.1:0' } });
    const at = work.daemon();
    const { port } = await at.message('health listens');
    await copyFinished(at, 'plain');
    await at.run('sync');
    const get = async (asked: string) => {
      const response = await fetch(`http://127.0.0.1:${port}${asked}`);
      return { status: response.status, text: await response.text() };
    };
    expect(await get('/readyz?max-age=90d')).toMatchObject({ status: 200 });
    renameSync(folder('plain'), folder('unplugged'));
    const from = at.lines.length;
    await announce(at, 'not copied');
    await at.run('hint', from);
    at.sleep(4 * HOUR);
    await announce(at, 'not copied either');
    const failed = await at.line((line) => line.msg === 'a copy failed; it is tried again', from);
    expect(failed).toMatchObject({ to: folder('plain'), code: 'offsite-target-gone' });
    expect(existsSync(folder('plain'))).toBe(false);
    const { status: code, text } = await get('/readyz?max-age=90d');
    expect([code, JSON.parse(text).copies]).toMatchObject([
      503,
      [{ to: folder('plain'), stale: true, failing: 'offsite-target-gone', damaged: false }],
    ]);
    expect((await get('/healthz')).status).toBe(200);
    const metrics = (await get('/metrics')).text;
    expect(metrics).toContain(`mailkeep_copy_stale{copy="${folder('plain')}"} 1`);
    expect(metrics).toContain('mailkeep_runs_total{kind="copy",outcome="failed"} ');
    expect(metrics).toContain('mailkeep_runs_total{kind="copy",outcome="done"} 1');
    expect(await at.end()).toBe(0);
    const checks = await mailkeep(['doctor', '--json', '--config', work.place.config]);
    expect(JSON.parse(checks.stdout).checks).toContainEqual(
      expect.objectContaining({ name: 'copy', about: folder('plain'), state: 'warning' }),
    );
  });

  it('reads everything back when it is told to, and knows of damage until all is intact', async () => {
    workplaceWith([{ to: './plain', every: '7d', verify: { full: '1m' } }]);
    const at = work.daemon();
    await at.run('sync');
    await copyFinished(at, 'plain');
    const log = folder(path.join('plain', 'log'));
    const [segment = ''] = readdirSync(log).filter((name) => name.endsWith('.seg'));
    const file = path.join(log, segment);
    const bytes = readFileSync(file);
    bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
    writeFileSync(file, bytes);
    let from = at.lines.length;
    at.sleep(2 * 60_000);
    await announce(at, 'first look');
    const damaged = 'a copy is damaged: "mailkeep verify --copy" shows where';
    await at.message(damaged, from);
    expect(
      await mailkeep(['verify', '--copy', folder('plain'), '--data', work.place.data]),
    ).toMatchObject({ code: 3, stdout: expect.stringContaining('Remove the damaged files there') });
    const shown = await done(['status', '--json', '--data', work.place.data], 3);
    expect(statusShape.parse(JSON.parse(shown)).copies).toMatchObject([
      { verified: { checked: 1, of: 1, found: 1 }, damage: { findings: 1 } },
    ]);
    rmSync(file);
    await done(['copy', '--to', folder('plain'), '--data', work.place.data]);
    from = at.lines.length;
    at.sleep(2 * 60_000);
    await announce(at, 'second look');
    await at.message('copy verified', from);
    expect((await status()).copies).toMatchObject([{ damage: null, verified: { found: 0 } }]);
    expect(await at.end()).toBe(0);
  });

  it('ends a copy with the daemon, which then ends with 0', async () => {
    workplaceWith([{ to: 's3://bucket/mail', every: '1h', lockDays: 30 }]);
    // A store that never answers.
    const requests: IncomingMessage[] = [];
    const store = createServer((request) => requests.push(request));
    store.listen(0, '127.0.0.1');
    await once(store, 'listening');
    const { port } = store.address() as AddressInfo;
    mkdirSync(folder('.aws'));
    const keys = 'aws_access_key_id = AKOPEN\naws_secret_access_key = hush-hush-secret';
    const endpoint = `endpoint_url = http://127.0.0.1:${port}`;
    writeFileSync(folder('.aws/credentials'), `[default]\n${keys}\n${endpoint}\n`, { mode: 0o600 });
    try {
      const at = work.daemon();
      const [asked] = (await once(store, 'request')) as [IncomingMessage];
      expect(asked.headers.authorization).toContain('Credential=AKOPEN/');
      // Whether the bucket locks is tried first of all.
      expect(`${asked.method} ${asked.url}`).toMatch(/^PUT \/bucket\/mail\/probe\//);
      const gone = once(asked.socket, 'close');
      await at.run('sync');
      expect(await at.end()).toBe(0);
      await gone;
      expect(at.lines.filter(({ msg }) => msg.startsWith('copy ')).map(({ msg }) => msg)).toEqual([
        'copy started',
      ]);
      expect(JSON.stringify(at.lines)).not.toContain('hush-hush');
      // What was interrupted has not failed.
      expect((await status()).copies).toMatchObject([{ failure: null, copiedAt: null }]);
    } finally {
      store.closeAllConnections();
      store.close();
    }
  });
});
