import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { AuthorizationServer, type ServerOptions } from './authorization-server.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Dovecot that accepts passwords, and tokens of an authorization server; with an account for each. */
async function signedOut(options: Partial<ServerOptions> = {}) {
  const provider = await AuthorizationServer.start({ user: 'anna', ...options });
  closing.push(() => provider.stop());
  const introspection = `${provider.issuer}/introspect`;
  const server = await startDovecot({ users: ['anna', 'bert'], introspection });
  closing.push(() => server.stop());
  const proxy = await ImapProxy.start({ to: server, readOnly: true });
  closing.push(() => proxy.stop());
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-login-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const config = path.join(folder, 'config.json');
  const at = { host: '127.0.0.1', tls: 'none' };
  const { clientSecret } = options;
  const oauth = {
    ...{ issuer: provider.issuer, clientId: 'client-1', scope: 'imap' },
    ...(clientSecret === undefined ? {} : { clientSecret, appOnly: true }),
  };
  const accounts = [
    {
      name: 'ada',
      imap: { ...at, port: proxy.port, user: 'anna', address: 'anna@example.org', oauth },
    },
    {
      name: 'bert',
      imap: {
        ...at,
        port: server.port,
        user: 'bert',
        address: 'bert@example.org',
        password: server.password,
      },
    },
  ];
  writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
  const run = (...args: string[]) => mailkeep([...args, '--config', config]);
  const client = await RawClient.login(server);
  closing.push(() => client.close());
  const deliver = (n: number) =>
    client.append('INBOX', `Subject: ${n}\r\nMessage-ID: <${n}@example.org>\r\n\r\n${n}\r\n`);
  const tokens = path.join(folder, 'data/oauth/ada.json');
  return { provider, server, proxy, run, deliver, tokens };
}

test.skipIf(withoutDovecot())(
  'an account signs in, refreshes its token, and stops alone when the provider ends the sign-in',
  async () => {
    const { provider, proxy, run, deliver, tokens } = await signedOut({
      polls: ['authorization_pending'],
    });
    const before = await run('sync');
    expect(before).toMatchObject({ code: 6 });
    expect(before.stderr).toContain('not signed in yet');
    expect(before.stderr).toContain('mailkeep account login ada');

    const check = await run('config', 'check');
    expect(check).toMatchObject({ code: 0 });
    expect(check.stdout).toContain('not signed in yet. Run "mailkeep account login ada".');

    const login = await run('account', 'login', 'ada');
    expect(login).toMatchObject({ code: 0 });
    expect(login.stderr).toContain(`  ${provider.issuer}/activate\n`);
    expect(login.stderr).toContain('WDJB-MJHT');
    expect(login.stdout).toContain('accepts anna, and lists 6 folders');
    const secrets = Object.entries(JSON.parse(readFileSync(tokens, 'utf8')) as object)
      .filter(([name]) => name.endsWith('Token'))
      .map(([, secret]) => String(secret));
    expect(secrets).toHaveLength(2);
    for (const secret of secrets) expect(login.stdout + login.stderr).not.toContain(secret);

    await deliver(1);
    expect(await run('sync')).toMatchObject({ code: 0 });
    expect(proxy.commands.map(({ verb }) => verb)).toContain('AUTHENTICATE');

    // The mail server refuses the token in the middle of a sync, on the next connection.
    await deliver(2);
    provider.revoke();
    const opened = proxy.commands.filter(({ verb }) => verb === 'EXAMINE').length;
    void proxy.plan({ do: 'cut-before', command: 'EXAMINE', nth: opened + 1 });
    const refreshed = await run('sync');
    expect(refreshed).toMatchObject({ code: 0, stderr: '' });
    expect(refreshed.stdout).toContain('1 new');

    provider.revoke(true);
    const ended = await run('sync', '--json');
    expect(ended.code).toBe(6);
    const result = JSON.parse(ended.stdout) as { failures: { account: string; code: string }[] };
    expect(result.failures).toMatchObject([{ account: 'ada', code: 'imap.login-needed' }]);
    expect((await run('sync')).stderr).toContain('mailkeep account login ada');
    const doctor = await run('doctor');
    expect(doctor).toMatchObject({ code: 6 });
    expect(doctor.stdout).toContain('mailkeep account login ada');
    expect(await run('account', 'login', 'ada')).toMatchObject({ code: 0 });
    expect(await run('sync')).toMatchObject({ code: 0 });
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'a provider that does not answer is not a refusal',
  async () => {
    const { provider, run } = await signedOut({ expiresIn: 30 });
    expect(await run('account', 'login', 'ada')).toMatchObject({ code: 0 });
    provider.faults.push([503, '{}']);
    const { code, stdout, stderr } = await run('doctor');
    expect(code).toBe(1);
    expect(stdout).toContain('cannot be reached for a token: HTTP 503');
    expect(stderr).toBe('');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'the token of another user is refused with the user to sign in as',
  async () => {
    const { run } = await signedOut({ user: 'bert' });
    const { code, stderr } = await run('account', 'login', 'ada');
    expect(code).toBe(6);
    expect(stderr).toContain('sign in as anna');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'an application signs in without a person',
  async () => {
    const { run, deliver, tokens } = await signedOut({ clientSecret: 'hush-hush' });
    await deliver(1);
    expect(await run('sync')).toMatchObject({ code: 0 });
    expect(() => readFileSync(tokens)).toThrow('ENOENT');
    const { code, stderr } = await run('account', 'login', 'ada', '--json');
    expect(code).toBe(2);
    expect(stderr).toContain('imap.no-oauth');
    expect((await run('account', 'login', 'bert')).stderr).toContain('does not use OAuth');
  },
  60_000,
);
