import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import type { ImapAccount } from '../../src/core/config-schema.ts';
import { imapCredential } from '../../src/imap/credential.ts';
import { mailkeep, start } from '../cli/child.ts';
import { AuthorizationServer, type ServerOptions, type Visit } from './authorization-server.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface SignedOut {
  readonly options?: Partial<ServerOptions>;
  /** What a person does when a device is to be signed in. */
  readonly person?: Visit;
  readonly scope?: string;
}

/** Dovecot that accepts passwords, and tokens of an authorization server; with an account for each. */
async function signedOut({
  options = {},
  person = {},
  scope = 'imap offline_access',
}: SignedOut = {}) {
  const visits: Promise<string>[] = [];
  const provider = await AuthorizationServer.start({
    user: 'anna',
    interval: 1,
    onDevice: (address) => visits.push(provider.visit(address, person)),
    ...options,
  });
  closing.push(() => provider.stop());
  closing.push(() => Promise.all(visits));
  const { introspection } = provider;
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
    ...{ issuer: provider.issuer, clientId: 'client-1', scope },
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
  const alone = (...args: string[]) => mailkeep([...args, '--config', config], { alone: true });
  const client = await RawClient.login(server);
  closing.push(() => client.close());
  const deliver = (n: number) =>
    client.append('INBOX', `Subject: ${n}\r\nMessage-ID: <${n}@example.org>\r\n\r\n${n}\r\n`);
  const tokens = path.join(folder, 'data/oauth/ada.json');
  return { provider, server, proxy, config, run, alone, deliver, tokens };
}

test.skipIf(withoutDovecot())(
  'an account signs in, refreshes its token, and stops alone when the provider ends the sign-in',
  async () => {
    const { provider, proxy, run, deliver, tokens } = await signedOut();
    const before = await run('sync');
    expect(before).toMatchObject({ code: 6 });
    expect(before.stderr).toContain('not signed in yet');
    expect(before.stderr).toContain('mailkeep account login ada');

    const check = await run('config', 'check');
    expect(check).toMatchObject({ code: 0 });
    expect(check.stdout).toContain('not signed in yet. Run "mailkeep account login ada".');

    const login = await run('account', 'login', 'ada');
    expect(login).toMatchObject({ code: 0 });
    const { code = '' } = /user_code=(?<code>\S+)/.exec(login.stderr)?.groups ?? {};
    expect(login.stderr).toContain(`  ${provider.issuer}/device?user_code=${code}\n`);
    expect(login.stderr).toContain(`with the code  ${code} `);
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
    const opened = proxy.commands.filter(({ verb }) => verb === 'EXAMINE').length;
    const cut = proxy.plan({ do: 'cut-before', command: 'EXAMINE', nth: opened + 1 });
    const expired = cut.then(() => provider.expire());
    const asked = provider.requests.length;
    const refreshed = await run('sync');
    await expired;
    expect(refreshed).toMatchObject({ code: 0, stderr: '' });
    expect(refreshed.stdout).toContain('1 new');
    const grants = provider.requests.slice(asked).map((body) => body.get('grant_type'));
    expect(grants).toEqual(['refresh_token']);

    await provider.revoke();
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
  'an account signs in with a browser where the provider has no device flow',
  async () => {
    const { provider, config, run, deliver } = await signedOut({
      options: { hasDeviceFlow: false },
    });
    const { child, ended } = start(['account', 'login', 'ada', '--config', config]);
    const shown = Promise.withResolvers<string>();
    let text = '';
    child.stderr.on('data', (bytes: Buffer) => {
      text += bytes.toString('utf8');
      const address = /^ {2}(?<address>http\S+)\n/m.exec(text)?.groups?.address;
      if (address !== undefined) shown.resolve(address);
    });
    const early = ended.then(({ stderr }) => {
      throw new Error(stderr);
    });
    const page = await fetch(await provider.visit(await Promise.race([shown.promise, early])));
    expect(await page.text()).toContain('You can close this page.');
    await expect(early).rejects.toThrow();
    expect(await ended).toMatchObject({ code: 0 });
    expect((await ended).stdout).toContain('accepts anna, and lists 6 folders');
    expect(provider.requests.map((body) => body.get('grant_type'))).toEqual(['authorization_code']);
    await deliver(1);
    expect(await run('sync')).toMatchObject({ code: 0 });
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'a provider that does not answer is not a refusal',
  async () => {
    const { provider, run } = await signedOut({ options: { expiresIn: 30 } });
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
    const { run } = await signedOut({ person: { user: 'bert' } });
    const { code, stderr } = await run('account', 'login', 'ada');
    expect(code).toBe(6);
    expect(stderr).toContain('sign in as anna');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'an application signs in without a person',
  async () => {
    const { run, deliver, tokens } = await signedOut({ options: { clientSecret: 'hush-hush' } });
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

test.skipIf(withoutDovecot())(
  'a token that is not for mail is refused, whoever says so',
  async () => {
    // The authorization server grants what was asked for; Dovecot sees that it is something else.
    const other = await signedOut({
      options: { scopes: ['imap', 'calendar'] },
      scope: 'calendar offline_access',
    });
    const accepted = await other.run('account', 'login', 'ada');
    expect(accepted.code).toBe(6);
    expect(accepted.stderr).toContain('not for IMAP');
    const unknown = await signedOut({ options: { scopes: ['calendar'] } });
    const refused = await unknown.run('account', 'login', 'ada');
    expect(refused.code).toBe(6);
    expect(refused.stderr).toContain('imap');
    expect(() => readFileSync(unknown.tokens)).toThrow('ENOENT');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'a person who refuses leaves the account signed out',
  async () => {
    const { run, tokens } = await signedOut({ person: { denies: true } });
    const { code, stderr } = await run('account', 'login', 'ada');
    expect(code).toBe(6);
    expect(stderr).toContain('mailkeep account login ada');
    expect(() => readFileSync(tokens)).toThrow('ENOENT');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'tokens that last half a minute are replaced for every connection of a sync',
  async () => {
    const { provider, proxy, run, deliver } = await signedOut({ options: { expiresIn: 30 } });
    expect(await run('account', 'login', 'ada')).toMatchObject({ code: 0 });
    await deliver(1);
    const before = provider.requests.length;
    const opened = proxy.commands.filter(({ verb }) => verb === 'EXAMINE').length;
    void proxy.plan({ do: 'cut-before', command: 'EXAMINE', nth: opened + 1 });
    const { code, stdout } = await run('sync');
    expect(code).toBe(0);
    expect(stdout).toContain('1 new');
    const grants = provider.requests.slice(before).map((body) => body.get('grant_type'));
    expect(grants.length).toBeGreaterThan(1);
    expect(new Set(grants)).toEqual(new Set(['refresh_token']));
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'processes that need a new token at the same time share one refresh',
  async () => {
    let hold = async (): Promise<void> => {};
    const scope = 'imap offline_access';
    const options = { onToken: () => hold() };
    const { provider, alone, run, deliver, tokens } = await signedOut({ options, scope });
    expect(await run('account', 'login', 'ada')).toMatchObject({ code: 0 });
    await deliver(1);
    const expire = (): void => {
      const stored = JSON.parse(readFileSync(tokens, 'utf8')) as object;
      writeFileSync(tokens, JSON.stringify({ ...stored, expiresAt: 0 }));
    };
    expire();
    const before = provider.requests.length;
    const asked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    hold = () => {
      asked.resolve();
      return released.promise;
    };
    const syncing = alone('sync');
    await asked.promise;
    // This process has read the old tokens before the other one gets new ones.
    const signIn = {
      ...{ kind: 'oauth', provider: null, issuer: provider.issuer, clientId: 'client-1', scope },
      ...{ appOnly: false, clientSecret: null },
    } as const;
    const account = { name: 'ada', imap: { signIn } } as Pick<ImapAccount, 'name' | 'imap'>;
    const dataDir = path.dirname(path.dirname(tokens));
    const reading = imapCredential(account, { env: {}, dataDir })(null);
    for (let turns = 0; turns < 10; turns += 1) await setImmediate();
    released.resolve();
    const { secret } = await reading;
    expect(await syncing).toMatchObject({ code: 0 });
    expect(provider.requests).toHaveLength(before + 1);
    // Had the old refresh token been used twice, the server would have ended the sign-in.
    expect(await provider.accepts(secret.reveal())).toBe(true);
    expire();
    expect(await run('sync')).toMatchObject({ code: 0 });
  },
  60_000,
);
