import { mkdtempSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/core/config.ts';
import type { ImapSettings } from '../../src/core/config-schema.ts';
import { shownFields } from '../../src/core/config-shown.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { readPassword } from '../../src/core/secrets.ts';

function written(account: unknown): string {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'imap-config-')), 'config.json');
  writeFileSync(file, JSON.stringify({ accounts: [account] }), { mode: 0o600 });
  return file;
}

/** Path and found of each problem. */
function problems(account: unknown): string[] {
  try {
    loadConfig(written(account));
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { paths, found } = error.facts;
    if (!Array.isArray(paths) || !Array.isArray(found)) throw error;
    return paths.map((at, i) => `${String(at)}: ${String(found[i])}`);
  }
  throw new Error('the configuration was accepted');
}

/** The IMAP server of the only account. */
function imapOf(file: string): ImapSettings {
  const [account] = loadConfig(file).settings.accounts;
  if (account?.kind !== 'imap') throw new Error('no IMAP account');
  return account.imap;
}

const password = { file: './ada.password' };
const imap = { host: 'IMAP.example.org', user: 'ada@example.org', password };

test('an IMAP account needs host, user and password', () => {
  const { settings } = loadConfig(written({ name: 'ada', imap }));
  expect(settings.accounts[0]).toMatchObject({
    kind: 'imap',
    name: 'ada',
    imap: {
      server: { host: 'imap.example.org', port: 993, tls: 'implicit', user: 'ada@example.org' },
      address: 'ada@example.org',
      id: 'imap.example.org/ada@example.org',
      hasId: false,
      signIn: { kind: 'password' },
      connections: 2,
    },
  });
});

test('the key of the mailbox has the port unless it is usual', () => {
  const idOf = (more: object): string | undefined =>
    imapOf(written({ name: 'ada', imap: { ...imap, ...more } })).id;
  expect(idOf({ tls: 'starttls' })).toBe('imap.example.org/ada@example.org');
  expect(idOf({ port: 1993 })).toBe('imap.example.org:1993/ada@example.org');
  expect(idOf({ id: 'old.example.org/ada' })).toBe('old.example.org/ada');
});

test('baseUrl and imap exclude each other, and one of them is needed', () => {
  const api = { baseUrl: 'https://mail.example', token: 'hush-hush-1' };
  expect(problems({ name: 'ada' })).toEqual([
    'accounts[0].baseUrl: nothing',
    'accounts[0].token: nothing',
  ]);
  expect(problems({ name: 'ada', ...api, imap })).toEqual([
    'accounts[0].baseUrl: "https://mail.example"',
    'accounts[0].token: a text (not shown)',
  ]);
});

test.each([
  [{ ...imap, tls: 'none' }, 'accounts[0].imap.tls: "none"'],
  [{ ...imap, user: 'ada' }, 'accounts[0].imap.address: nothing'],
  [{ host: 'a.example', user: 'a@b.example' }, 'accounts[0].imap.password: nothing'],
  [{ ...imap, accessToken: { env: 'X' } }, 'accounts[0].imap.accessToken: an object'],
  [{ ...imap, host: 'imaps://a.example' }, 'accounts[0].imap.host: "imaps://a.example"'],
  [{ ...imap, host: 'a.example:993' }, 'accounts[0].imap.host: "a.example:993"'],
  [{ ...imap, host: '[::1]' }, 'accounts[0].imap.host: "[::1]"'],
  [{ ...imap, port: 0 }, 'accounts[0].imap.port: 0'],
  [{ ...imap, tls: 'ssl' }, 'accounts[0].imap.tls: "ssl"'],
])('%j is refused', (section, problem) => {
  expect(problems({ name: 'ada', imap: section })).toEqual([problem]);
});

test.each(['mail_1.example.org', '127.0.0.1', '::1', '2001:db8::1', '::ffff:127.0.0.1'])(
  'the host %s is accepted',
  (host) => {
    expect(imapOf(written({ name: 'ada', imap: { ...imap, host } })).server.host).toBe(host);
  },
);

test.each([
  [{}, { clientId: 'c' }, 'oauth.provider: nothing'],
  [{}, { provider: 'yahoo', clientId: 'c' }, 'oauth.provider: "yahoo"'],
  [{}, { provider: 'google' }, 'oauth.clientId: nothing'],
  [{}, { issuer: 'https://a.example', clientId: 'c' }, 'oauth.scope: nothing'],
  [
    {},
    { issuer: 'http://a.example', scope: 's', clientId: 'c' },
    'oauth.issuer: "http://a.example"',
  ],
  [
    {},
    { provider: 'google', issuer: 'https://a.example', scope: 's', clientId: 'c' },
    'oauth.issuer: "https://a.example"',
  ],
  [{}, { provider: 'google', tenant: 't', clientId: 'c' }, 'oauth.tenant: "t"'],
  [
    {},
    { provider: 'microsoft', tenant: 't', clientId: 'c', appOnly: true },
    'oauth.clientSecret: nothing',
  ],
  [
    {},
    { provider: 'microsoft', clientId: 'c', clientSecret: 'hush', appOnly: true },
    'oauth.tenant: nothing',
  ],
  [
    {},
    { provider: 'google', clientId: 'c', clientSecret: 'hush', appOnly: true },
    'oauth.appOnly: true',
  ],
  [{ password }, { provider: 'google', clientId: 'c' }, 'oauth: an object'],
])('with %j, oauth %j is refused', (more, oauth, problem) => {
  const { password: _, ...server } = imap;
  expect(problems({ name: 'ada', imap: { ...server, ...more, oauth } })).toEqual([
    `accounts[0].imap.${problem}`,
  ]);
});

test('presets know the addresses and scopes of a provider', () => {
  const { password: _, ...server } = imap;
  const oauthOf = (oauth: object) => {
    const { signIn } = imapOf(written({ name: 'ada', imap: { ...server, oauth } }));
    return signIn.kind === 'oauth' ? [signIn.issuer, signIn.scope] : [];
  };
  const microsoft = { provider: 'microsoft', clientId: 'c' };
  expect(oauthOf({ provider: 'google', clientId: 'c', clientSecret: 'hush' })).toEqual([
    'https://accounts.google.com',
    'https://mail.google.com/',
  ]);
  expect(oauthOf(microsoft)).toEqual([
    'https://login.microsoftonline.com/common/v2.0',
    'https://outlook.office.com/IMAP.AccessAsUser.All offline_access',
  ]);
  expect(
    oauthOf({ ...microsoft, tenant: 'a.example', clientSecret: 'hush', appOnly: true }),
  ).toEqual([
    'https://login.microsoftonline.com/a.example/v2.0',
    'https://outlook.office365.com/.default',
  ]);
});

test('two accounts cannot be the same mailbox', () => {
  const file = written({ name: 'ada', imap });
  const accounts = ['ada', 'bert', 'cleo'].map((name) => ({ name, imap }));
  writeFileSync(file, JSON.stringify({ accounts }), { mode: 0o600 });
  expect(() => loadConfig(file)).toThrow('another mailbox than accounts[0]');
  const apart = accounts.map((one) => ({ ...one, imap: { ...imap, id: one.name } }));
  writeFileSync(file, JSON.stringify({ accounts: apart }), { mode: 0o600 });
  expect(loadConfig(file).settings.accounts).toHaveLength(3);
});

test('a command prints the password, and neither it nor its arguments are shown', async () => {
  const command = [process.execPath, '-e', 'console.log("pass phrase ü\\nmore")', 'hush'];
  const file = written({ name: 'ada', imap: { ...imap, password: { command } } });
  const { signIn } = imapOf(file);
  if (signIn.kind !== 'password') throw new Error('no password');
  const { secret } = signIn;
  expect((await readPassword(secret, {}, 'password')).reveal()).toBe('pass phrase ü');
  expect(JSON.stringify(shownFields(file))).not.toContain('hush');
  const failing = (...args: string[]) =>
    readPassword({ kind: 'command', name: process.execPath, args }, {}, 'password');
  await expect(failing('-e', 'process.exit(3)')).rejects.toMatchObject({
    code: 'secret-command-failed',
    facts: { reason: '3' },
  });
  await expect(failing('-e', '')).rejects.toMatchObject({ code: 'token-empty' });
  await expect(failing('-e', 'process.stdout.write("x".repeat(100_000))')).rejects.toMatchObject({
    code: 'secret-command-failed',
  });
  await expect(
    readPassword({ kind: 'command', name: '/no/such/program', args: [] }, {}, 'password'),
  ).rejects.toMatchObject({ facts: { reason: 'ENOENT' } });
  await expect(failing('-e', 'console.log("a\\rb")')).rejects.toMatchObject({
    code: 'token-unusable',
  });
});

test('a command that ignores its end, or leaves a child behind, holds nothing up', async () => {
  const shell = (script: string, signal?: AbortSignal) =>
    readPassword(
      { kind: 'command', name: '/bin/sh', args: ['-c', script] },
      {},
      'password',
      signal,
    );
  // The child holds the pipe open for longer than the test may take.
  expect((await shell('sleep 600 & echo hush')).reveal()).toBe('hush');
  await expect(shell('exit 0', AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped');
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-secret-'));
  const ready = path.join(folder, 'ready');
  const controller = new AbortController();
  const watcher = watch(folder, () => controller.abort(new Error('stopped')));
  const script = `trap "" TERM; : > ${ready}; while :; do sleep 600; done`;
  await expect(shell(script, controller.signal)).rejects.toThrow('stopped');
  watcher.close();
});
