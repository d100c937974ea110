import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, program, start } from '../cli/child.ts';
import { DaemonTests, EVERY_SECOND, type RunningDaemon } from './running-daemon.ts';

const MESSAGES = 60;

async function subjects(work: DaemonTests): Promise<unknown[]> {
  const { stdout } = await mailkeep(['list', '--json', '--data', work.place.data]);
  return jsonLines(stdout).map(
    (line) => z.object({ subject: z.string().nullable() }).parse(line).subject,
  );
}

const result = z.object({
  mailboxes: z.array(z.object({ address: z.string(), folders: z.number(), added: z.number() })),
});

describe('a daemon that waits', () => {
  const work = new DaemonTests({ seed: 5, mail: { messages: MESSAGES } }, true);
  let at: RunningDaemon;
  beforeAll(async () => {
    at = work.daemon();
    await at.run('sync');
  });

  it('looks at a mailbox at once on a hint, and again until the message is there', async () => {
    let from = at.lines.length;
    const [first] = work.sandbox.mailboxes;
    const uid = work.arrive('hinted');
    await at.hint({ resourceId: first?.resourceId, uid });
    expect(await at.run('hint', from)).toMatchObject({ added: 1, mailboxes: 1 });
    from = at.lines.length;
    await at.hint({ address: first?.address, uid: uid + 1 });
    await at.run('hint', from);
    work.arrive('late');
    await at.line((line) => line.kind === 'hint' && line.added === 1, from);
    expect(await subjects(work)).toEqual(expect.arrayContaining(['hinted', 'late']));
  });

  it('is handed a sync, which begins after the call and says what it found', async () => {
    work.arrive('by hand');
    const { code, stdout } = await mailkeep(['sync', '--json', '--config', work.place.config]);
    expect(code).toBe(0);
    const { mailboxes } = result.parse(JSON.parse(stdout));
    expect(mailboxes.map(({ added }) => added)).toEqual([1, 0]);
    await at.run('hand');
    const one = work.sandbox.mailboxes[1]?.address ?? '';
    const sync = ['sync', '--json', '--config', work.place.config];
    const narrowed = await mailkeep([...sync, '--mailbox', one, '--folder', 'INBOX', '--full']);
    expect(result.parse(JSON.parse(narrowed.stdout)).mailboxes).toEqual([
      expect.objectContaining({ address: one, folders: 1 }),
    ]);
    const plan = await mailkeep([...sync, '--dry-run']);
    expect(JSON.parse(plan.stdout)).toMatchObject({ messages: 0 });
    const wrong = await mailkeep([...sync, '--mailbox', 'x@y.z']);
    expect(wrong.code).toBe(2);
    const status = await mailkeep(['status', '--json', '--data', work.place.data]);
    expect(JSON.parse(status.stdout)).toMatchObject({
      daemon: { pid: at.child.pid, accounts: [{ name: 'main', state: 'ok', mailboxes: 2 }] },
    });
  });

  it('continues a pass when the client that asked for it has gone', async () => {
    const from = at.lines.length;
    work.sandbox.fault({ kind: 'slow', operation: 'listFolders', overMs: 500 });
    work.arrive('left alone');
    const { child, ended } = start(['sync', '--config', work.place.config]);
    await at.line((line) => line.msg === 'run started' && line.kind === 'hand', from);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect(await at.run('hand', from)).toMatchObject({ added: 1 });
    work.sandbox.clearFaults();
  });
});

describe('the daemon', () => {
  const work = new DaemonTests({ seed: 5, mail: { messages: MESSAGES } });

  it('mirrors at the start, and again whenever the schedule says', async () => {
    work.configure((config) => ({
      ...config,
      schedule: { ...config.schedule, sync: EVERY_SECOND },
    }));
    const at = work.daemon();
    expect((await at.run('sync')).added).toBe(MESSAGES);
    const from = at.lines.length;
    work.arrive('second');
    await at.line((line) => line.msg === 'run finished' && line.added === 1, from);
    expect(await subjects(work)).toContain('second');
    expect(await at.end()).toBe(0);
    expect(existsSync(path.join(work.place.data, 'control.sock'))).toBe(false);
  });

  it('makes up once for what it missed while the machine slept', async () => {
    work.configure((config) => ({
      ...config,
      schedule: { ...config.schedule, sync: EVERY_SECOND, sweep: '0 3 * * *' },
    }));
    const at = work.daemon();
    await at.run('sync');
    const from = at.lines.length;
    at.sleep(26 * 3_600_000);
    const jumped = await at.message('the clock jumped, or the machine slept', from);
    expect(Math.round(Number(jumped.ms) / 3_600_000)).toBe(26);
    expect(await at.run('sweep', from)).toMatchObject({ level: 'info', failures: 0 });
    work.arrive('after the sleep');
    await at.line((line) => line.kind === 'sync' && line.added === 1, from);
    const sweeps = at.lines.slice(from).filter(({ msg, kind }) => {
      return msg === 'run finished' && kind === 'sweep';
    });
    expect(sweeps).toHaveLength(1);
    expect(await at.end()).toBe(0);
  });

  it('ends within ten seconds in the middle of a sync, with 0 and nothing lost', async () => {
    work.sandbox.fault({ kind: 'slow', operation: 'getMessageSource', overMs: 200 });
    const at = work.daemon();
    await at.sources(20);
    const asked = performance.now();
    at.signal('SIGTERM');
    expect((await at.ended).code).toBe(0);
    expect(performance.now() - asked).toBeLessThan(10_000);
    work.sandbox.clearFaults();
    const { code, stdout } = await mailkeep(['sync', '--json', '--config', work.place.config]);
    expect(code).toBe(0);
    const { added } = { added: result.parse(JSON.parse(stdout)).mailboxes.map((one) => one.added) };
    expect(added.reduce((sum, n) => sum + n, 0)).toBeLessThan(MESSAGES);
  });

  it('keeps its configuration when the new one is wrong, and takes a right one', async () => {
    const at = work.daemon();
    await at.run('sync');
    const right = z.looseObject({}).parse(JSON.parse(readFileSync(work.place.config, 'utf8')));
    writeFileSync(work.place.config, JSON.stringify({ ...right, schedule: { sync: 'soon' } }));
    at.signal('SIGHUP');
    const refused = await at.line((line) => line.level === 'error');
    expect(refused).toMatchObject({
      code: 'config-invalid',
      message: expect.stringContaining('schedule.sync'),
    });
    expect((await mailkeep(['sync', '--json', '--config', work.place.config])).code).toBe(2);
    writeFileSync(
      work.place.config,
      JSON.stringify({ ...right, schedule: { sync: EVERY_SECOND } }),
    );
    at.signal('SIGHUP');
    await at.message('configuration reloaded');
    const from = at.lines.length;
    work.arrive('new schedule');
    await at.line((line) => line.msg === 'run finished' && line.added === 1, from);
    expect(await at.end()).toBe(0);
  });

  it('keeps a configuration that came through a pipe, and says so', async () => {
    const config = path.join(work.place.folder, 'piped.json');
    writeFileSync(config, readFileSync(work.place.config));
    // The shell becomes the daemon: signals reach it. The last argument is the file of --config.
    const script = `exec "$0" "\${@:1:$#-1}" <(cat '${config}')`;
    const at = work.daemon(work.place, ['bash', '-c', script]);
    await at.run('sync');
    rmSync(config);
    at.signal('SIGHUP');
    expect(
      await at.message(
        'the configuration came from a pipe: another takes effect only after a restart',
      ),
    ).toMatchObject({ level: 'warn', accounts: 1 });
    const from = at.lines.length;
    work.arrive('still there');
    const [first] = work.sandbox.mailboxes;
    await at.hint({ resourceId: first?.resourceId });
    await at.run('hint', from);
    expect(await subjects(work)).toContain('still there');
    expect(at.lines.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
    expect(await at.end()).toBe(0);
  });

  it('waits for a network that is lost, which is no refusal, and makes up for it', async () => {
    const at = work.daemon();
    await at.run('sync');
    const port = Number(new URL(work.sandbox.mailboxUrl).port);
    await work.sandbox.close();
    const handed = await mailkeep(['sync', '--json', '--config', work.place.config]);
    expect(handed.code).toBe(1);
    expect(await at.message('the service cannot be reached; the account waits')).toMatchObject({
      state: 'away',
      code: 'origin.unreachable',
    });
    expect((await at.status()).accounts).toMatchObject([{ state: 'away' }]);
    work.sandbox = await startSandbox({ seed: 5, mail: { messages: MESSAGES }, port });
    work.arrive('after the night');
    await at.message('the account is back');
    await at.line((line) => line.msg === 'run finished' && line.added === 1);
    expect((await at.status()).accounts).toMatchObject([{ state: 'ok' }]);
  });

  it('stops an account whose token is refused, and takes a new token file at once', async () => {
    const at = work.daemon();
    await at.run('sync');
    const old = work.sandbox.tokens.mailbox;
    work.sandbox.service.tokens.revoke(old, Date.now());
    const handed = await mailkeep(['sync', '--json', '--config', work.place.config]);
    expect(handed.code).toBe(6);
    const stopped = await at.message('the service refuses the token; the account waits');
    expect(stopped).toMatchObject({ level: 'error', state: 'refused', code: 'auth.refused' });
    work.arrive('with the new token');
    const [known] = work.sandbox.service.store.mailboxes.values();
    work.sandbox.service.tokens.put('mbx_another-token', {
      surface: 'mailbox',
      orderId: known?.orderId ?? '',
      mailboxes: null,
      expiresAt: null,
      revokedAt: null,
    });
    writeFileSync(path.join(work.place.folder, 'token'), 'mbx_another-token\n', { mode: 0o600 });
    await at.message('the account is back');
    await at.line((line) => line.msg === 'run finished' && line.added === 1);
  });

  it('is alone with its archive: a second one ends with 5, and one that was killed leaves nothing stale', async () => {
    const first = work.daemon();
    await first.run('sync');
    const second = work.daemon();
    const { code, stderr } = await second.ended;
    expect(code).toBe(5);
    expect(stderr).toContain('in use');
    expect((await mailkeep(['rebuild', '--data', work.place.data])).code).toBe(5);
    first.child.kill('SIGKILL');
    await first.ended;
    expect(existsSync(path.join(work.place.data, 'control.sock'))).toBe(true);
    expect((await mailkeep(['sync', '--quiet', '--config', work.place.config])).code).toBe(0);
    const third = work.daemon();
    await third.run('sync');
    expect(await third.end()).toBe(0);
  });

  it('has a socket for its owner alone, and another place for it when the path is too long', async () => {
    const deep = path.join(work.place.folder, 'd'.repeat(60), 'e'.repeat(60));
    mkdirSync(deep, { recursive: true });
    const config = z.looseObject({}).parse(JSON.parse(readFileSync(work.place.config, 'utf8')));
    writeFileSync(work.place.config, JSON.stringify({ ...config, dataDir: deep }));
    const far = { ...work.place, data: deep };
    const at = work.daemon(far);
    await at.run('sync');
    const socket = readFileSync(path.join(deep, 'control.path'), 'utf8').trim();
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(statSync(path.dirname(socket)).mode & 0o777).toBe(0o700);
    expect((await at.status()).pid).toBe(at.child.pid);
    expect(await at.end()).toBe(0);
    expect(existsSync(path.join(deep, 'control.path'))).toBe(false);
  });

  it('keeps tokens, addresses and subjects out of its log', async () => {
    work.configure((config) => ({ ...config, log: { level: 'trace' } }));
    const [first] = work.sandbox.mailboxes;
    work.sandbox.fault({ kind: 'status', operation: 'getMessageSource', status: 403, times: 2 });
    work.sandbox.fault({ kind: 'html-page', operation: 'listMessages', times: 8 });
    const at = work.daemon();
    await at.run('sync');
    const uid = work.arrive('a subject that stays secret');
    await at.hint({ address: first?.address, uid });
    await at.run('hint');
    work.sandbox.service.tokens.revoke(work.sandbox.tokens.mailbox, Date.now());
    await mailkeep(['sync', '--quiet', '--config', work.place.config]);
    writeFileSync(work.place.config, '{"accounts": 3}');
    at.signal('SIGHUP');
    await at.line((line) => line.code === 'config-invalid');
    expect(await at.end()).toBe(0);
    const log = at.lines.map((line) => JSON.stringify(line)).join('\n');
    const listed = await mailkeep(['list', '--json', '--data', work.place.data]);
    const row = z.object({
      subject: z.string().nullable(),
      from: z.unknown(),
      mailbox: z.string(),
    });
    const rows = jsonLines(listed.stdout).map((line) => row.parse(line));
    const secret = [
      ...Object.values(work.sandbox.tokens),
      ...work.sandbox.mailboxes.map(({ address }) => address),
      ...rows.flatMap(({ subject }) => (subject === null || subject.length < 6 ? [] : [subject])),
      'example.org',
      '@',
    ];
    expect(rows.length).toBeGreaterThan(MESSAGES / 2);
    expect(secret.filter((text) => log.includes(text))).toEqual([]);
  });

  it('speaks to people on a terminal, and ends with it', async () => {
    const script = spawn(
      'script',
      ['-qec', `${process.execPath} ${program} daemon --config ${work.place.config}`, '/dev/null'],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { PATH: process.env.PATH ?? '', TERM: 'xterm' },
      },
    );
    let shown = '';
    const ready = new Promise<void>((resolve) => {
      script.stdout.on('data', (piece: Buffer) => {
        shown += piece.toString();
        if (shown.includes('run finished')) resolve();
      });
    });
    await Promise.race([ready, once(script, 'error')]);
    script.kill('SIGTERM');
    await once(script, 'close');
    expect(shown).toContain('INFO');
    expect(shown).not.toContain('{"level"');
    // The terminal is gone. Only the terminal tells the daemon, which must not continue unseen.
    const pid = Number(/\((\d+)\): /.exec(shown)?.[1]);
    const isRunning = (): boolean => {
      const command = `/proc/${pid}/cmdline`;
      return existsSync(command) && readFileSync(command, 'utf8').includes(work.place.config);
    };
    expect(pid).toBeGreaterThan(0);
    while (isRunning()) await new Promise((resolve) => setImmediate(resolve));
  });
});
