import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../src/core/concurrency.ts';
import type { ImapAccount } from '../../src/core/config-schema.ts';
import { Secret } from '../../src/core/secrets.ts';
import { imapCredential } from '../../src/imap/credential.ts';
import { appToken, type LoginPrompt, login } from '../../src/imap/oauth.ts';
import { tokensFile, writeTokens } from '../../src/imap/oauth-tokens.ts';
import { AuthorizationServer, type ServerOptions } from './authorization-server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'imap-oauth-'));
  closing.push(() => rmSync(dataDir, { recursive: true, force: true }));
});

/** Returns what happens during a wait, which is counted from 1. */
type During = (wait: number, server: AuthorizationServer, address: string) => unknown;

/** A clock in which each wait takes no time but that of what happens meanwhile, and moves it forward. */
class QuickClock implements Clock {
  at = Date.UTC(2026, 10, 30);
  readonly waits: number[] = [];
  during: (wait: number) => unknown = () => {};
  now = (): number => this.at;
  after(ms: number, call: () => void): () => void {
    this.waits.push(ms);
    this.at += ms;
    let isAwaited = true;
    const happen = async (): Promise<void> => {
      await this.during(this.waits.length);
      if (isAwaited) setImmediate(() => isAwaited && call());
    };
    void happen();
    return () => {
      isAwaited = false;
    };
  }
}

async function served(options: Partial<ServerOptions> = {}): Promise<AuthorizationServer> {
  const server = await AuthorizationServer.start({ user: 'ada@example.org', ...options });
  closing.push(() => server.stop());
  return server;
}

function settingsFor({ issuer }: { issuer: string }, more: object = {}) {
  return {
    ...{ provider: null, issuer, clientId: 'client-1', scope: 'imap offline_access' },
    ...{ appOnly: false, clientSecret: null, ...more },
  };
}

function clientFor(server: { issuer: string }, clock: Clock, more: object = {}) {
  const settings = settingsFor(server, more);
  return { account: 'ada', settings, clientSecret: null, clock };
}

const never = new AbortController().signal;

const approves: During = (wait, server, address) => wait === 1 && server.visit(address);
const waits: During = () => {};

/** Signs in, and does something while mailkeep waits: a person approves before the first poll, for example. */
async function logIn(
  server: { issuer: string },
  { clock = new QuickClock(), during = approves, more = {} } = {},
) {
  const prompts: LoginPrompt[] = [];
  const show = (prompt: LoginPrompt): void => {
    prompts.push(prompt);
    if (server instanceof AuthorizationServer) {
      clock.during = (wait) => during(wait, server, prompt.url);
    }
  };
  const tokens = await login(clientFor(server, clock, more), { show }, never);
  return { tokens, prompts, clock };
}

const slowDown = [400, '{"error":"slow_down"}'] as const;

describe('the device flow', () => {
  test('shows an address and a code, and waits as long as the server says', async () => {
    const server = await served({ interval: 2 });
    const { tokens, prompts, clock } = await logIn(server, {
      during: (wait, _server, address) => {
        if (wait === 2) server.faults.push(slowDown);
        return wait === 4 && server.visit(address);
      },
    });
    const code = prompts[0]?.code ?? '';
    expect(code).toMatch(/^[A-Z]{4}-[A-Z]{4}$/);
    const url = `${server.issuer}/device?user_code=${code}`;
    expect(prompts).toEqual([{ url, code, minutes: 10 }]);
    expect(await server.accepts(tokens.access.secret.reveal())).toBe(true);
    expect(clock.waits).toEqual([2_000, 2_000, 7_000, 7_000]);
    expect(tokens.access.expiresAt).toBe(clock.at + 3_600_000);
    // Without slow_down, which is not in what the server itself answered.
    expect(server.requests).toHaveLength(3);
  });

  test.each<[string, During, Partial<ServerOptions>, object]>([
    [
      'that it was denied',
      (wait, server, address) => wait === 1 && server.visit(address, { denies: true }),
      {},
      { code: 'imap.oauth-not-signed-in', facts: { reason: 'denied' } },
    ],
    [
      'that it has expired',
      (wait, server) => wait === 2 && server.expire(),
      {},
      { code: 'imap.oauth-not-signed-in', facts: { reason: 'expired' } },
    ],
    [
      'nothing for ten minutes',
      waits,
      {},
      { code: 'imap.oauth-not-signed-in', facts: { reason: 'expired' } },
    ],
    [
      'another code',
      waits,
      { clientScope: 'openid offline_access' },
      { code: 'imap.oauth-refused', facts: { error: 'invalid_scope' } },
    ],
  ])('ends without tokens if the server answers %s', async (_what, during, options, error) => {
    const server = await served({ interval: 5, ...options });
    await expect(logIn(server, { during })).rejects.toMatchObject({ family: 'auth', ...error });
  });

  test.each([
    [100_000, 60_000],
    [0.001, 1_000],
  ])('polls within a second and a minute if the server asks for %d s', async (interval, ms) => {
    const server = await served({ interval });
    const { clock } = await logIn(server, {
      during: (wait, _server, address) => wait === 4 && server.visit(address),
    });
    expect(clock.waits).toEqual([ms, ms, ms, ms]);
  });

  test('waits no longer than the code is valid', async () => {
    const server = await served({ interval: 45 });
    const clock = new QuickClock();
    const start = clock.at;
    await expect(logIn(server, { clock, during: waits })).rejects.toMatchObject({
      facts: { reason: 'expired' },
    });
    expect(clock.at - start).toBe(600_000);
  });

  test('continues after a cut and an answer 503', async () => {
    const server = await served();
    server.faults.push('cut', [503, '{}']);
    const { tokens, clock } = await logIn(server);
    expect(await server.accepts(tokens.access.secret.reveal())).toBe(true);
    // The server names no interval, so it is that of RFC 8628.
    expect(clock.waits).toEqual([5_000, 11_000, 23_000]);
  });

  test('finds a server without OpenID Connect', async () => {
    const server = await served({ isPlainOAuth: true });
    const { tokens } = await logIn(server);
    expect(await server.accepts(tokens.access.secret.reveal())).toBe(true);
  });

  test('refuses a sign-in in which the scope for mail was not granted', async () => {
    const server = await served({ scopes: ['calendar'] });
    await expect(logIn(server)).rejects.toMatchObject({
      code: 'imap.oauth-scope',
      facts: { missing: 'imap' },
    });
    const tokens = { access_token: 'a', token_type: 'Bearer', refresh_token: 'r', scope: 'IMAP' };
    server.faults.push([200, JSON.stringify(tokens)]);
    await logIn(server, { during: waits });
  });

  test('stops when the user interrupts it', async () => {
    const server = await served();
    const stop = new AbortController();
    const show = (): void => stop.abort(new Error('interrupted'));
    await expect(login(clientFor(server, systemClock), { show }, stop.signal)).rejects.toThrow(
      'interrupted',
    );
  });
});

describe('the browser flow', () => {
  test.each(['the loopback address', 'a pasted address'])(
    'takes the answer from %s',
    async (way) => {
      const server = await served({ hasDeviceFlow: false });
      const shown = Promise.withResolvers<string>();
      const redirected = async (): Promise<string> => server.visit(await shown.promise);
      const pastes = ['nonsense', 'http://127.0.0.1/?code=x&state=forged'];
      const signing = login(
        clientFor(server, systemClock),
        {
          show: ({ url }) => shown.resolve(url),
          ...(way === 'a pasted address'
            ? { paste: async () => pastes.shift() ?? (await redirected()) }
            : {}),
        },
        never,
      );
      if (way === 'the loopback address') {
        const target = new URL(await redirected());
        // Other programs on the machine know neither the state nor the code.
        const forged = new URL(target);
        forged.searchParams.set('state', 'forged');
        expect((await fetch(forged)).status).toBe(404);
        expect((await fetch(target)).status).toBe(200);
      }
      expect(await server.accepts((await signing).access.secret.reveal())).toBe(true);
      expect(server.requests[0]?.get('code_verifier')).toMatch(/^.{43,}$/);
    },
  );

  test('reports that the user refused', async () => {
    const server = await served({ hasDeviceFlow: false });
    const shown = Promise.withResolvers<string>();
    const show = ({ url }: LoginPrompt): void => shown.resolve(url);
    const signing = login(clientFor(server, systemClock), { show }, never);
    const ended = signing.catch((error: unknown) => error);
    await fetch(await server.visit(await shown.promise, { denies: true }));
    expect(await ended).toMatchObject({ facts: { reason: 'denied' } });
  });

  test('ends after ten minutes', async () => {
    const server = await served({ hasDeviceFlow: false });
    await expect(logIn(server, { during: waits })).rejects.toMatchObject({
      facts: { reason: 'expired' },
    });
  });
});

describe('hostile answers', () => {
  test.each([
    ['no JSON', [200, '<html>'], 'imap.oauth-malformed'],
    ['no token', [200, '{"token_type":"Bearer"}'], 'imap.oauth-malformed'],
    [
      'a token with a line break',
      [200, '{"access_token":"a\\r\\nb","token_type":"Bearer","refresh_token":"x"}'],
      'imap.oauth-malformed',
    ],
    [
      'no refresh token',
      [200, '{"access_token":"a","token_type":"Bearer"}'],
      'imap.oauth-malformed',
    ],
    ['two megabytes', [200, ' '.repeat(2_000_000)], 'imap.oauth-malformed'],
    ['an odd error code', [400, '{"error":"\\u001b[2J evil"}'], 'imap.oauth-refused'],
  ] as const)('%s is an error', async (_what, fault, code) => {
    const server = await served();
    server.faults.push(fault);
    const failure = await logIn(server, { during: waits }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code });
    expect(JSON.stringify(failure)).not.toContain('evil');
  });

  test('a server that is not there, and one that is another issuer', async () => {
    const gone = await AuthorizationServer.start({ user: 'ada@example.org' });
    const { issuer } = gone;
    await gone.stop();
    await expect(logIn({ issuer })).rejects.toMatchObject({
      code: 'imap.oauth-unreachable',
      facts: { reason: 'ECONNREFUSED' },
      retryable: true,
    });
    const server = await served();
    await expect(
      logIn({ issuer: `${server.issuer.replace('127.0.0.1', 'localhost')}` }),
    ).rejects.toMatchObject({
      code: 'imap.oauth-malformed',
    });
  });
});

describe('an access token', () => {
  const accountFor = (server: AuthorizationServer, more: object = {}) =>
    ({
      name: 'ada',
      imap: { signIn: { kind: 'oauth', ...settingsFor(server, more) } },
    }) as Pick<ImapAccount, 'name' | 'imap'>;

  async function signedIn(options: Partial<ServerOptions> = {}) {
    const server = await served(options);
    const clock = new QuickClock();
    const { tokens } = await logIn(server, { clock });
    const file = tokensFile(dataDir, 'ada');
    writeTokens(file, settingsFor(server), tokens);
    server.requests.length = 0;
    const open = () => imapCredential(accountFor(server), { env: {}, dataDir, clock });
    return { server, clock, tokens, file, open, read: open() };
  }

  test('is kept in a file that only the user can read, and used by the next process', async () => {
    const { server, file, open } = await signedIn();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(path.dirname(file)).mode & 0o777).toBe(0o700);
    const first = await open()(null);
    expect(first).toMatchObject({ kind: 'token', login: 'ada' });
    expect((await open()(null)).secret.reveal()).toBe(first.secret.reveal());
    expect(server.requests).toEqual([]);
  });

  test('is refreshed before it expires, once for connections that need it at the same time', async () => {
    const { server, clock, file, read } = await signedIn();
    const before = (await read(null)).secret.reveal();
    clock.at += 3_541_000;
    const [one, two] = await Promise.all([read(null), read(null)]);
    expect(one.secret.reveal()).not.toBe(before);
    expect(two.secret.reveal()).toBe(one.secret.reveal());
    expect(server.requests.map((body) => body.get('grant_type'))).toEqual(['refresh_token']);
    expect(readFileSync(file, 'utf8')).toContain(one.secret.reveal());
    // The server has replaced the refresh token.
    clock.at += 3_600_000;
    await read(null);
    expect(server.requests).toHaveLength(2);
  });

  test('that the mail server refuses is refreshed, whatever its time says', async () => {
    const { server, read } = await signedIn({ expiresIn: null });
    const first = await read(null);
    const second = await read(first.secret);
    expect(second.secret.reveal()).not.toBe(first.secret.reveal());
    // Another connection was refused with the old token; the new one is not wasted.
    expect((await read(first.secret)).secret.reveal()).toBe(second.secret.reveal());
    expect(server.requests).toHaveLength(1);
  });

  test('without a refresh token that the server accepts names the command to sign in', async () => {
    const { server, read, clock } = await signedIn();
    await server.revoke();
    clock.at += 3_600_000;
    await expect(read(null)).rejects.toMatchObject({
      family: 'auth',
      code: 'imap.login-needed',
      facts: { account: 'ada', reason: 'ended' },
    });
  });

  test('of another process is used if that one was faster with the refresh token', async () => {
    const { server, clock, tokens, file, read } = await signedIn();
    clock.at += 3_600_000;
    const other = await imapCredential(accountFor(server), { env: {}, dataDir, clock })(null);
    const latest = readFileSync(file, 'utf8');
    // This process read the file before the other one replaced it.
    writeTokens(file, settingsFor(server), tokens);
    const racing = read(null);
    writeFileSync(file, latest);
    expect((await racing).secret.reveal()).toBe(other.secret.reveal());
    expect(server.requests).toHaveLength(1);
    expect(await server.accepts(other.secret.reveal())).toBe(true);
  });

  test('ends with the sign-in if a refresh token is used again, as after a restored backup', async () => {
    const { server, clock, tokens, file, read } = await signedIn();
    clock.at += 3_600_000;
    const latest = await read(null);
    writeTokens(file, settingsFor(server), tokens);
    await expect(read(null)).rejects.toMatchObject({
      code: 'imap.login-needed',
      facts: { reason: 'ended' },
    });
    // The server cannot know which of two holders is a thief.
    expect(await server.accepts(latest.secret.reveal())).toBe(false);
  });

  test('is refreshed once for several processes, whose refresh token is accepted once', async () => {
    const { server, open } = await signedIn({ expiresIn: null });
    const first = await open()(null);
    const all = await Promise.all([1, 2, 3].map(() => open()(first.secret)));
    expect(new Set(all.map(({ secret }) => secret.reveal())).size).toBe(1);
    expect(server.requests).toHaveLength(1);
  });

  test('that cannot be stored is stored by the next connection', async () => {
    let act = (): void => {};
    const { server, file, open, read } = await signedIn({ expiresIn: null, onToken: () => act() });
    const first = await read(null);
    act = () => {
      renameSync(file, `${file}.away`);
      mkdirSync(file);
    };
    await expect(read(first.secret)).rejects.toMatchObject({ code: 'imap.tokens-unwritable' });
    rmSync(file, { recursive: true });
    renameSync(`${file}.away`, file);
    const second = await read(first.secret);
    expect(await server.accepts(second.secret.reveal())).toBe(true);
    expect((await open()(null)).secret.reveal()).toBe(second.secret.reveal());
    expect(server.requests).toHaveLength(1);
  });

  test('is not refreshed if its folder cannot be written to', async () => {
    const { server, file, read } = await signedIn({ expiresIn: null });
    const first = await read(null);
    writeFileSync(`${file}.lock`, '');
    await expect(read(first.secret)).rejects.toMatchObject({ code: 'imap.tokens-unwritable' });
    expect(server.requests).toEqual([]);
  });

  test('is not mistaken for one of another client, and a failing server is no refusal', async () => {
    const { server, clock, read } = await signedIn();
    const other = imapCredential(accountFor(server, { scope: 'other' }), {
      env: {},
      dataDir,
      clock,
    });
    await expect(other(null)).rejects.toMatchObject({ facts: { reason: 'changed' } });
    clock.at += 3_600_000;
    server.faults.push([500, '{}'], [400, '{"error":"temporarily_unavailable"}'], 'cut');
    for (let n = 0; n < 3; n += 1)
      await expect(read(null)).rejects.toMatchObject({
        code: 'imap.oauth-unreachable',
        retryable: true,
      });
    await read(null);
  });

  test('of the application needs no sign-in and no file', async () => {
    const server = await served({ clientSecret: 'hush' });
    const clock = new QuickClock();
    const more = {
      appOnly: true,
      clientSecret: { kind: 'literal', secret: new Secret('hush'), name: 'x' },
    };
    const read = imapCredential(accountFor(server, more), { env: {}, dataDir, clock });
    const first = await read(null);
    expect((await read(null)).secret.reveal()).toBe(first.secret.reveal());
    expect((await read(first.secret)).secret.reveal()).not.toBe(first.secret.reveal());
    expect(server.requests.map((body) => body.get('grant_type'))).toEqual([
      'client_credentials',
      'client_credentials',
    ]);
    const wrong = { ...clientFor(server, clock, more), clientSecret: new Secret('wrong') };
    await expect(appToken(wrong, never)).rejects.toMatchObject({
      code: 'imap.oauth-refused',
      facts: { error: 'invalid_client' },
    });
  });

  test('of the application is also refused by name where the secret is sent in a header', async () => {
    const server = await served({ clientSecret: 'hush', clientAuth: 'client_secret_basic' });
    const client = clientFor(server, new QuickClock(), { appOnly: true });
    const { secret } = await appToken({ ...client, clientSecret: new Secret('hush') }, never);
    expect(secret.reveal()).toMatch(/./);
    const wrong = { ...client, clientSecret: new Secret('wrong') };
    await expect(appToken(wrong, never)).rejects.toMatchObject({
      code: 'imap.oauth-refused',
      facts: { error: 'invalid_client' },
    });
  });
});
