import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { run } from '../../src/cli/run.ts';
import { type Clock, systemClock } from '../../src/core/concurrency.ts';
import { findServer } from '../../src/imap/find-server.ts';
import { mailkeep, screen } from '../cli/child.ts';
import { type Srv, serveDns } from './dns-server.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { RawClient } from './raw-client.ts';
import { type Script, ScriptedServer } from './scripted-server.ts';
import type { MailServer } from './server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function withDns(records: Readonly<Record<string, readonly Srv[]>>) {
  const server = await serveDns(records);
  closing.push(() => server.stop());
  return server;
}

/** Runs init on a terminal where somebody gives these answers, one for each question. */
async function asked(args: readonly string[], answers: readonly string[]) {
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-init-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const waiting = [...answers];
  let shown = '';
  const stderr = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const text = chunk.toString('utf8');
      shown += text;
      if (/: $|\[Y\/n\] $/.test(stripVTControlCharacters(text))) {
        const answer = waiting.shift();
        setImmediate(() => (answer === undefined ? stdin.end() : stdin.write(`${answer}\n`)));
      }
      done();
    },
  });
  const stdout = screen();
  const code = await run(['init', ...args], COMMANDS, {
    stdin: () => stdin,
    stdout: stdout.stream,
    stderr: Object.assign(stderr, { isTTY: true, columns: 200 }),
    env: { TERM: 'dumb' },
    cwd: folder,
    signal: new AbortController().signal,
    now: Date.now,
  });
  const config = path.join(folder, 'config.json');
  const written: unknown = existsSync(config) ? JSON.parse(readFileSync(config, 'utf8')) : null;
  return { code, folder, shown, stdout: stdout.text(), written, left: waiting };
}

const never = new AbortController().signal;

describe('the server of an address', () => {
  test('is found in DNS: implicit TLS first, then priority and weight', async () => {
    await withDns({
      '_imap._tcp.a.example': [{ port: 143, target: 'plain.a.example' }],
      '_imaps._tcp.a.example': [
        { priority: 20, port: 993, target: 'second.a.example' },
        { priority: 10, weight: 1, port: 1993, target: 'light.a.example' },
        { priority: 10, weight: 5, port: 993, target: 'Heavy.A.example' },
      ],
      '_imap._tcp.b.example': [{ port: 143, target: 'mail.b.example' }],
      // "." says that the service is not offered.
      '_imaps._tcp.b.example': [{ port: 0, target: '' }],
      '_imaps._tcp.c.example': [{ port: 993, target: 'imap.hosting.example' }],
      '_imaps._tcp.d.example': [{ port: 993, target: 'evil-d.example' }],
    });
    const found = (domain: string) => findServer(domain, never);
    const own = { trust: 'own-domain' };
    expect(await found('A.Example')).toEqual({
      host: 'heavy.a.example',
      port: 993,
      tls: 'implicit',
      ...own,
    });
    expect(await found('b.example')).toEqual({
      host: 'mail.b.example',
      port: 143,
      tls: 'starttls',
      ...own,
    });
    expect(await found('c.example')).toMatchObject({
      host: 'imap.hosting.example',
      trust: 'elsewhere',
    });
    expect(await found('d.example')).toMatchObject({ trust: 'elsewhere' });
    expect(await found('gmail.com')).toMatchObject({ host: 'imap.gmail.com', trust: 'provider' });
    expect(await found('unknown.example')).toBeUndefined();
  });

  test('is not waited for if DNS does not answer', async () => {
    const { promises: dns } = await import('node:dns');
    const before = dns.getServers();
    closing.push(() => dns.setServers(before));
    // Nobody listens there, and a clock that is ahead.
    dns.setServers(['127.0.0.1:9']);
    const clock: Clock = {
      now: systemClock.now,
      after: (_ms, call) => {
        const handle = setImmediate(call);
        return () => clearImmediate(handle);
      },
    };
    expect(await findServer('a.example', never, clock)).toBeUndefined();
  });
});

describe('init --imap', () => {
  async function dovecot(): Promise<MailServer> {
    const server = await startDovecot();
    closing.push(() => server.stop());
    const client = await RawClient.login(server);
    for (const n of [1, 2, 3])
      await client.append('INBOX', `Subject: ${n}\r\n\r\n${'x'.repeat(1_000)}\r\n`);
    client.close();
    return server;
  }

  test.skipIf(withoutDovecot())(
    'signs in, shows folders and sizes, and writes a configuration that syncs',
    async () => {
      const { port, user, password } = await dovecot();
      const address = 'anna@example.org';
      const args = [
        '--imap',
        address,
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '--tls',
        'none',
      ];
      const { code, shown, stdout, written, left, folder } = await asked(
        [...args],
        ['wrong', '', user, password, './mail', 'y'],
      );
      expect([code, left]).toEqual([0, []]);
      // The address is no user of this server: without a password, the user is asked for.
      expect(shown).toContain('refused to sign in anna@example.org');
      expect(shown).toContain(`127.0.0.1, port ${port}, accepts anna:`);
      expect(shown).toMatch(/INBOX +3 +3\.\d kB/);
      expect(shown).toMatch(/To fetch: 3 messages, 3\.\d kB, in 6 folders/);
      expect(shown + stdout).not.toContain(password);
      expect(written).toEqual({
        dataDir: './mail',
        accounts: [
          {
            name: 'main',
            imap: {
              ...{ host: '127.0.0.1', port, tls: 'none', user, address },
              password: { file: './main.password' },
            },
          },
        ],
      });
      const file = path.join(folder, 'main.password');
      expect(readFileSync(file, 'utf8')).toBe(`${password}\n`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const config = path.join(folder, 'config.json');
      expect(readFileSync(config, 'utf8')).not.toContain(password);
      const sync = await mailkeep(['sync', '--config', config]);
      expect(sync).toMatchObject({ code: 0 });
      expect(sync.stdout).toContain('3 new');
    },
    60_000,
  );

  test('asks about a server in another domain, and refuses it with --yes', async () => {
    await withDns({ '_imaps._tcp.a.example': [{ port: 1, target: 'localhost' }] });
    const declined = await asked(['--imap', 'ada@a.example'], ['n']);
    expect(declined.shown).toContain(
      'DNS names localhost, port 1, as the IMAP server of a.example.',
    );
    expect(declined.shown).toContain('IMAP server [imap.a.example]: ');
    expect(declined.written).toBeNull();
    const args = ['--imap', 'ada@a.example', '--yes'];
    const refused = await asked(args, []);
    expect(refused.code).toBe(2);
    expect(refused.shown).toContain('add --host localhost');
  });

  test('advises on options, because there is no configuration yet', async () => {
    const scripted = async (script: Script) => {
      const server = await ScriptedServer.start(script);
      closing.push(() => server.stop());
      return String(server.port);
    };
    const init = async (port: string, tls: string) => {
      const config = path.join(tmpdir(), 'imap-init-never', 'config.json');
      const at = ['--imap', 'ada@a.example', '--host', '127.0.0.1', '--port', port, '--tls', tls];
      const args = ['init', ...at, '--yes', '--config', config];
      const { code, stderr } = await mailkeep(args, { input: 'wrong\n' });
      return `${code} ${stderr.replace(/\s+/g, ' ')}`;
    };
    const LOGIN = (tag: string) => `${tag} NO [AUTHENTICATIONFAILED] no\r\n`;
    const refused = await init(await scripted({ answers: { LOGIN } }), 'none');
    expect(refused).toMatch(/^6 .*Check the user name and the password/);
    expect(refused).not.toContain('panel of your mail service');
    const plain = await scripted({});
    expect(await init(plain, 'starttls')).toMatch(
      /^1 .*does not offer STARTTLS.* Use --tls implicit/,
    );
    expect(await init(plain, 'implicit')).toMatch(/^1 .*--host, --port and --tls/);
    expect(await init('9', 'none')).toMatch(/^1 .*port 9, .* --host, --port and --tls/);
    for (const host of ['imaps://127.0.0.1:10143', '127.0.0.1:10143']) {
      const args = ['--imap', 'ada@a.example', '--host', host, '--tls', 'none', '--yes'];
      const { code, stderr } = await mailkeep(['init', ...args], { input: 'wrong\n' });
      expect(code).toBe(2);
      expect(stderr.replace(/\s+/g, ' ')).toContain('a host name or IP address, without scheme');
    }
  });

  test('without a terminal needs a password, and a host that is known', async () => {
    await withDns({});
    const none = await mailkeep(['init', '--imap', 'ada@a.example', '--yes']);
    expect(none).toMatchObject({ code: 2 });
    expect(none.stderr).toContain(
      'a password (--password-env, --password-file, or on standard input)',
    );
    const unknown = await mailkeep(['init', '--imap', 'ada@a.example'], { input: 'secret\n' });
    expect(unknown.stderr).toContain('no terminal to prompt on: --host');
  });

  test.each([
    [['--imap', 'ada']],
    [['--imap', 'ada@a.example', '--base-url', 'https://a.example']],
    [['--host', 'a.example']],
    [['--imap', 'ada@a.example', '--host', '127.0.0.1', '--tls', 'ssl']],
    [['--imap', 'ada@a.example', '--password-env', 'A', '--password-file', 'b']],
  ])('%j is wrong usage', async (args) => {
    const { code, written } = await asked(args, []);
    expect([code, written]).toEqual([2, null]);
  });
});
