import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { quoteUnitPath, quoteUnitWord, unitFiles } from '../../src/cli/commands/daemon-install.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, program } from '../cli/child.ts';
import { packagedFiles } from './packaged.ts';

const NOBODY = 65_534;
const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-units-'));
afterAll(() => rmSync(folder, { recursive: true }));

const runs = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;
const analysed = runs('systemd-analyze', '--version');
// The unit hides /tmp, and runs as somebody else: the program has to lie where that leaves it readable.
const reachable =
  !program.startsWith('/tmp/') &&
  runs('setpriv', '--reuid', String(NOBODY), '--clear-groups', 'test', '-r', program);
const confined =
  reachable &&
  process.getuid?.() === 0 &&
  analysed &&
  runs('unshare', '--mount', '--pid', '--fork', 'true') &&
  runs('python3', '-c', 'import ctypes; ctypes.CDLL("libseccomp.so.2")');
if (!analysed) console.info('systemd-analyze is missing: units were not verified');
if (!confined)
  console.info(
    'no root, unshare or libseccomp, or a checkout under /tmp: nothing was run under restrictions',
  );

const packaged = (name: string) =>
  readFileSync(new URL(`../../systemd/${name}`, import.meta.url), 'utf8');

test('the package holds the units that would be installed', () => {
  for (const { path: name, content } of packagedFiles()) expect(packaged(name), name).toBe(content);
});

test('the worker of a fleet has the restrictions of the daemon', () => {
  const daemon = packaged('mailkeep.service').split('\n');
  const shared = daemon
    .slice(daemon.indexOf('Nice=10'), daemon.indexOf('[Install]'))
    .filter((line) => !/^(?:StateDirectory|LoadCredential)/.test(line));
  expect(shared.length).toBeGreaterThan(30);
  expect(packaged('mailkeep-fleet.service').split('\n')).toEqual(expect.arrayContaining(shared));
});

test('the daemon is started again for as long as it takes, but not where a person has to look', () => {
  const unit = packagedFiles().find(({ path: name }) => name === 'mailkeep.service')?.content;
  const settings = unit?.split('\n') ?? [];
  expect(settings).toEqual(
    expect.arrayContaining([
      'Restart=on-failure',
      'StartLimitIntervalSec=0',
      'RestartPreventExitStatus=2 3',
    ]),
  );
  expect(settings.filter((line) => line.startsWith('StartLimitBurst'))).toEqual([]);
});

test.skipIf(!analysed)('systemd finds nothing wrong with the units, and little exposed', () => {
  const scopes = ['system', 'user'] as const;
  for (const scope of scopes) {
    const at = path.join(folder, scope);
    mkdirSync(at);
    const files = unitFiles({
      scope,
      program: [process.execPath, program],
      config: '/etc/mail keep/100% "sure" $HOME.json',
      dataDir: scope === 'system' ? '/var/lib/mailkeep' : '/srv/mail',
      credentials: ['token', 'platform-token'],
    });
    for (const { path: name, content } of files) writeFileSync(path.join(at, name), content);
    const units = files.map(({ path: name }) => path.join(at, name));
    const flag = scope === 'user' ? ['--user'] : [];
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', ...flag, ...units], {
      encoding: 'utf8',
      env: { ...process.env, XDG_RUNTIME_DIR: at },
    });
    expect([verified.status, verified.stderr]).toEqual([0, '']);
  }
  const worker = path.join(folder, 'system', 'mailkeep-fleet.service');
  const here = `${process.execPath} ${program}`;
  const fleet = packaged('mailkeep-fleet.service');
  writeFileSync(worker, fleet.replace('/usr/local/bin/mailkeep', here));
  const found = spawnSync('systemd-analyze', ['verify', '--man=no', worker], { encoding: 'utf8' });
  expect([found.status, found.stderr]).toEqual([0, '']);
  for (const name of ['mailkeep.service', 'mailkeep-sync.service', 'mailkeep-fleet.service']) {
    // In tenths: 2.0.
    const args = [
      'security',
      '--offline=true',
      '--threshold=20',
      path.join(folder, 'system', name),
    ];
    const judged = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect(judged.status, judged.stdout).toBe(0);
  }
});

test.each([
  ['/var/lib/mailkeep', 'StateDirectory=mailkeep'],
  ['/var/cache/mailkeep', 'CacheDirectory=mailkeep'],
  ['/srv/mail', 'ReadWritePaths=/srv/mail'],
])('a system service may write to %s by %s', (dataDir, setting) => {
  const [unit] = unitFiles({
    scope: 'system',
    program: ['/usr/bin/mailkeep'],
    config: '/etc/mailkeep/config.json',
    dataDir,
    credentials: [],
  });
  expect(unit?.content.split('\n')).toContain(setting);
});

test('words of a command line survive systemd', () => {
  expect(quoteUnitWord('/usr/bin/node')).toBe('/usr/bin/node');
  expect(quoteUnitWord('/a b/100%/$HOME"x\\')).toBe('"/a b/100%%/$$HOME\\"x\\\\"');
});

test('a path is one value of a directive, whatever is in it', () => {
  expect(quoteUnitPath('/srv/mail')).toBe('/srv/mail');
  expect(quoteUnitPath('/a b/100%/$HOME"x\\')).toBe('"/a b/100%%/$HOME\\"x\\\\"');
  for (const bad of ['/a\nExecStartPre=/bin/x', '/a\r', '/a\t', '/a\0', '/a\u0085', '/a\x1b[2J']) {
    for (const quote of [quoteUnitWord, quoteUnitPath]) {
      expect(() => quote(bad)).toThrow(
        expect.objectContaining({ family: 'usage', code: 'service-units-path' }),
      );
    }
  }
});

test('a path that would add a directive is refused before anything is written', async () => {
  const root = path.join(folder, 'refused');
  const refused = await mailkeep([
    'daemon',
    'install',
    '--user',
    '--root',
    root,
    '--data',
    '/srv/m\nExecStartPre=/bin/touch x',
  ]);
  expect([refused.code, refused.stdout]).toEqual([2, '']);
  expect(refused.stderr).toContain('"/srv/m\\nExecStartPre=/bin/touch x"');
  expect(existsSync(root)).toBe(false);
});

test('daemon install writes, writes again, and replaces nothing that differs', async () => {
  const root = path.join(folder, 'root');
  mkdirSync(root);
  const install = (...more: string[]) =>
    mailkeep(['daemon', 'install', '--system', '--root', root, ...more], { alone: true });
  const dry = await install('--dry-run');
  expect([dry.code, existsSync(path.join(root, 'etc'))]).toEqual([0, false]);
  expect(dry.stdout).toContain(`ExecStart=${process.execPath} ${program} daemon`);
  const first = await install();
  expect([first.code, first.stderr]).toEqual([0, '']);
  expect(first.stdout).toContain('systemctl enable --now mailkeep.service');
  const unit = path.join(root, 'etc/systemd/system/mailkeep.service');
  for (const file of [unit, path.join(root, 'etc/sysusers.d/mailkeep.conf')]) {
    expect(readFileSync(file, 'utf8').length).toBeGreaterThan(10);
  }
  expect((await install('--json')).code).toBe(0);
  writeFileSync(unit, 'mine');
  const refused = await install();
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(unit)]);
  expect(readFileSync(unit, 'utf8')).toBe('mine');
  expect((await install('--force')).code).toBe(0);
  expect(readFileSync(unit, 'utf8')).toContain('Type=notify');
});

test('the configuration decides about credentials and the folder that may be written', async () => {
  const config = path.join(folder, 'config.json');
  const token = { credential: 'mail-token' };
  const accounts = [{ name: 'main', baseUrl: 'https://mail.example.com', token }];
  writeFileSync(config, JSON.stringify({ dataDir: '/srv/mail', accounts }));
  const { stdout } = await mailkeep([
    'daemon',
    'install',
    '--system',
    '--dry-run',
    '--config',
    config,
  ]);
  expect(stdout).toContain('LoadCredential=mail-token:/etc/mailkeep/mail-token\n');
  expect(stdout).toContain('ReadWritePaths=/srv/mail\n');
  expect(stdout).not.toContain('StateDirectory=');
});

describe.skipIf(!confined)('under the restrictions of the unit', () => {
  const home = mkdtempSync(path.join(tmpdir(), 'mailkeep-confined-'));
  const data = path.join(home, 'data');
  // The restrictions hide /tmp and /root, where this interpreter may be; the folder with the data stays visible.
  const node = path.join(data, 'node');
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await startSandbox({ seed: 11, mail: { messages: 40 } });
    mkdirSync(data);
    chownSync(data, NOBODY, NOBODY);
    copyFileSync(process.execPath, node);
    chmodSync(node, 0o755);
    // Private /tmp: what the program reads has to be elsewhere, here next to the data.
    const accounts = [
      { name: 'main', baseUrl: sandbox.mailboxUrl, token: { credential: 'token' } },
    ];
    const rateLimit = { requestsPerMinute: 1_000_000 };
    const config = { accounts, rateLimit, minFreeBytes: 0, dataDir: './archive' };
    writeFileSync(path.join(data, 'config.json'), JSON.stringify(config));
    writeFileSync(path.join(data, 'token'), sandbox.tokens.mailbox);
    chownSync(path.join(data, 'token'), NOBODY, NOBODY);
    chmodSync(path.join(data, 'token'), 0o400);
  });
  afterAll(async () => {
    await sandbox.close();
    rmSync(home, { recursive: true });
  });

  function begin(...command: string[]) {
    const script = fileURLToPath(new URL('./restricted.py', import.meta.url));
    return spawn('python3', [script, data, '--', ...command], {
      env: { PATH: process.env.PATH, CREDENTIALS_DIRECTORY: data },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async function restricted(...command: string[]) {
    const child = begin(...command);
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code: child.exitCode, stdout, stderr };
  }
  const confinedMailkeep = (...args: string[]) =>
    restricted(node, program, ...args, '--config', path.join(data, 'config.json'));

  test('the restrictions are real', async () => {
    const shell = await restricted(
      '/bin/sh',
      '-c',
      'id -u; grep -c . /proc/mounts; touch /usr/x || echo read-only; unshare -U true || echo no-namespaces; grep Seccomp: /proc/self/status; test -e /proc/meminfo || echo own-proc',
    );
    expect(shell.stdout).toContain('65534\n');
    for (const word of ['read-only', 'no-namespaces', 'own-proc']) {
      expect(shell.stdout).toContain(word);
    }
    expect(shell.stdout).toMatch(/Seccomp:\s+2/);
  });

  test('a sync fetches, stores, seals and indexes; worker threads and the database work', async () => {
    const sync = await confinedMailkeep('sync', '--json');
    expect([sync.code, sync.stderr]).toEqual([0, '']);
    const { failures, certificates } = JSON.parse(sync.stdout) as {
      failures: unknown[];
      certificates: { stored: number; complete: boolean }[];
    };
    expect(failures).toEqual([]);
    expect(certificates.reduce((sum, { stored }) => sum + stored, 0)).toBe(40);
    const status = await confinedMailkeep('status', '--json', '--max-age', '1h');
    expect(status.code).toBe(0);
    expect(JSON.parse(status.stdout)).toMatchObject({ messages: 40, pending: 0, fresh: true });
    const rebuilt = await confinedMailkeep('rebuild', '--json');
    expect([rebuilt.code, rebuilt.stderr]).toEqual([0, '']);
  });

  test('the daemon passes, listens, verifies in a process of its own, runs a command, and ends in order', async () => {
    const config = z.looseObject({}).parse(JSON.parse(readFileSync(`${data}/config.json`, 'utf8')));
    const heard = path.join(data, 'heard');
    writeFileSync(
      path.join(data, 'config.json'),
      JSON.stringify({
        ...config,
        schedule: { sync: '* * * * * *', verify: '*/2 * * * * *' },
        health: { listen: '127.0.0.1:0' },
        webhook: { listen: '127.0.0.1:0' },
        // The refused token is reported at once.
        notify: { command: `cat > ${heard}` },
      }),
    );
    const args = ['daemon', '--config', path.join(data, 'config.json')];
    const child = begin(node, program, ...args);
    const stderr = text(child.stderr);
    const closed = once(child, 'close');
    const line = z.looseObject({ level: z.string(), msg: z.string() });
    const said: z.output<typeof line>[] = [];
    const wanted = ['run finished', 'health listens', 'webhooks are received'];
    let stopped = false;
    // Whatever fails below, nothing of it stays behind: with unshare goes what it started.
    onTestFinished(() => {
      child.kill('SIGKILL');
    });
    for await (const written of createInterface({ input: child.stdout })) {
      said.push(line.parse(JSON.parse(written)));
      const heardOf = (msg: string) => said.some((one) => one.msg === msg);
      if (stopped || ![...wanted, 'verification finished'].every(heardOf)) continue;
      sandbox.service.tokens.revoke(sandbox.tokens.mailbox, Date.now());
      if (!heardOf('notified')) continue;
      stopped = true;
      // The first process of the namespace, and not unshare, which would kill it.
      const children = `/proc/${child.pid}/task/${child.pid}/children`;
      process.kill(Number(readFileSync(children, 'utf8').trim()), 'SIGTERM');
    }
    await closed;
    expect([child.exitCode, await stderr]).toEqual([0, '']);
    expect(said.at(-1)).toMatchObject({ msg: 'ended', code: 0 });
    expect(said.filter(({ level }) => level === 'fatal')).toEqual([]);
    expect(JSON.parse(readFileSync(heard, 'utf8'))).toMatchObject({ event: 'failing' });
  });
});

test.skipIf(!runs('systemd-sysusers', '--version'))('systemd understands the user', () => {
  const file = fileURLToPath(new URL('../../systemd/mailkeep.sysusers.conf', import.meta.url));
  const { status } = spawnSync('systemd-sysusers', ['--dry-run', file]);
  expect(status).toBe(0);
});
