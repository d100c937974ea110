import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/core/concurrency.ts';
import { Secret } from '../../src/core/secrets.ts';
import type { Credential } from '../../src/imap/connection.ts';
import { openAccount } from './account.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import type { Fault } from './faults.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import { ScriptedServer } from './scripted-server.ts';
import type { MailServer } from './server.ts';

const signal = new AbortController().signal;
const newest = { page: 1, perPage: 100, order: 'descending' } as const;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function dovecot(options: Parameters<typeof startDovecot>[0] = {}): Promise<MailServer> {
  const server = await startDovecot(options);
  closing.push(() => server.stop());
  return server;
}

function open(...args: Parameters<typeof openAccount>): ReturnType<typeof openAccount> {
  const account = openAccount(...args);
  closing.push(() => account.connections.close());
  return account;
}

async function fill(server: MailServer, count: number): Promise<void> {
  const client = await RawClient.login(server);
  for (let n = 1; n <= count; n += 1)
    await client.append('INBOX', `Message-ID: <${n}@x>\r\nSubject: ${n}\r\n\r\nbody ${n}\r\n`);
  client.close();
}

test('a server that breaks many connections is given time', async () => {
  const server = await ScriptedServer.start({
    answers: { NOOP: (_tag, _line, socket) => void socket.destroy() },
  });
  closing.push(() => server.stop());
  let now = Date.UTC(2026, 10, 30);
  const clock: Clock = {
    now: () => now,
    after(ms, call) {
      now += ms;
      const handle = setImmediate(call);
      return () => clearImmediate(handle);
    },
  };
  const retries = { attempts: 1, lostMs: 1, throttledMs: 1, mostMs: 1 };
  const { connections } = open({ port: server.port }, { clock, retries });
  const noop = () => connections.use((session) => session.run('NOOP', 'NOOP'), signal);
  const times: number[] = [];
  for (let i = 0; i < 100; i += 1) {
    await expect(noop()).rejects.toMatchObject({ code: 'imap.connection-lost' });
    times.push(now);
  }
  expect(server.connections).toBe(100);
  expect(times[31]).toBe(times[0]);
  expect(now - Number(times[0])).toBeGreaterThan(65 * 2_000);
  expect(now - Number(times[0])).toBeLessThan(70 * 2_000);
});

describe.skipIf(withoutDovecot())('Dovecot', () => {
  test('implicit TLS and STARTTLS trust only a certificate for the host', async () => {
    const server = await dovecot();
    const ca = server.certificate.pem;
    for (const [tls, port] of [
      ['implicit', server.tlsPort],
      ['starttls', server.port],
    ] as const) {
      const { origin } = open({ port, tls, ca });
      expect((await origin.folders('', signal)).complete).toBe(true);
      const untrusting = open({ port, tls });
      await expect(untrusting.origin.folders('', signal)).rejects.toMatchObject({
        code: 'imap.certificate',
      });
    }
    const other = await dovecot({ certificateNames: ['DNS:elsewhere.example'] });
    for (const [tls, port] of [
      ['implicit', other.tlsPort],
      ['starttls', other.port],
    ] as const) {
      const { origin } = open({ port, tls, ca: other.certificate.pem });
      await expect(origin.folders('', signal)).rejects.toMatchObject({ code: 'imap.certificate' });
    }
  });

  test('works with fewer connections if the server refuses more', async () => {
    const server = await dovecot({ maxConnections: 1 });
    const { origin, connections } = open({ port: server.port }, { most: 3 });
    const folders = ['INBOX', 'Sent', 'Drafts', 'Trash', 'Junk'];
    // Dovecot counts a connection some time after it has signed in.
    await origin.folders('', signal);
    const pages = await Promise.all(
      folders.map((folder) =>
        origin.list({ host: origin.host, mailbox: 'm', folder }, newest, signal),
      ),
    );
    expect(pages.map(({ total }) => total)).toEqual([0, 0, 0, 0, 0]);
    expect(connections.budget).toBe(1);
  });

  test('continues through broken connections, throttling and a restart', async () => {
    const server = await dovecot();
    await fill(server, 30);
    const faults: Fault[] = [
      { do: 'bye', connection: 1, text: 'Too many connections' },
      { do: 'answer', command: 'LIST', nth: 1, text: 'NO [UNAVAILABLE] later' },
      { do: 'cut-before-answer', command: 'UID SEARCH', nth: 1 },
      { do: 'cut-before', command: 'UID FETCH', nth: 1 },
      { do: 'answer', command: 'UID FETCH', nth: 2, text: 'NO [OVERQUOTA] bandwidth' },
      { do: 'cut', to: 'client', afterBytes: 9_000 },
    ];
    const proxy = await ImapProxy.start({ to: server, readOnly: true, faults });
    closing.push(() => proxy.stop());
    const { origin } = open({ port: proxy.port });
    const at = { host: origin.host, mailbox: 'm', folder: 'INBOX' };
    expect((await origin.folders('', signal)).complete).toBe(true);
    const { items } = await origin.list(at, newest, signal);
    expect(items).toHaveLength(30);
    const sources = await Promise.all(items.map(({ uid }) => origin.source(at, uid, signal)));
    const texts = sources.map((one) => (one.kind === 'buffer' ? one.bytes.toString() : ''));
    expect(texts.map((text) => /body (\d+)/.exec(text)?.[1])).toEqual(
      items.map(({ subject }) => subject),
    );
    expect(new Set(proxy.happened)).toEqual(new Set(faults));
    await server.kill();
    await server.restart();
    expect((await origin.list(at, newest, signal)).total).toBe(30);
  });

  test('sources requested together share commands', async () => {
    const server = await dovecot();
    await fill(server, 64);
    const proxy = await ImapProxy.start({ to: server, readOnly: true });
    closing.push(() => proxy.stop());
    const { origin } = open({ port: proxy.port });
    const at = { host: origin.host, mailbox: 'm', folder: 'INBOX' };
    const { items } = await origin.list(at, newest, signal);
    const before = proxy.commands.filter(({ verb }) => verb === 'UID FETCH').length;
    await Promise.all(items.map(({ uid }) => origin.source(at, uid, signal)));
    const commands = proxy.commands.filter(({ verb }) => verb === 'UID FETCH').length - before;
    expect(commands).toBe(1);
  });

  test.each(['ascending', 'descending'] as const)(
    'pages that follow each other share commands, and show each message once: %s',
    async (order) => {
      const server = await dovecot();
      await fill(server, 90);
      const proxy = await ImapProxy.start({ to: server, readOnly: true });
      closing.push(() => proxy.stop());
      const { origin } = open({ port: proxy.port });
      const at = { host: origin.host, mailbox: 'm', folder: 'INBOX' };
      const seen: number[] = [];
      let [lo, hi] = [1, Number.POSITIVE_INFINITY];
      while (lo <= hi) {
        const uids = `${lo}:${hi === Number.POSITIVE_INFINITY ? '*' : hi}`;
        const { items, total } = await origin.search(at, { uids, perPage: 10, order }, signal);
        const found = items.map(({ uid }) => uid);
        seen.push(...found);
        if (total <= items.length) break;
        if (order === 'ascending') lo = Math.max(...found) + 1;
        else hi = Math.min(...found) - 1;
      }
      expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 90 }, (_, i) => i + 1));
      // One for the first page, and one for ten others.
      const commands = proxy.commands.filter(({ verb }) => verb === 'UID FETCH').length;
      expect(commands).toBe(2);
    },
  );
});

describe('tokens', () => {
  const credential = async (): Promise<Credential> => ({
    kind: 'token',
    secret: new Secret('tok'),
  });

  test.each([
    ['AUTH=OAUTHBEARER AUTH=XOAUTH2', 'OAUTHBEARER', /^n,a=anna,\|host=.*\|auth=Bearer tok\|\|$/],
    ['AUTH=XOAUTH2', 'XOAUTH2', /^user=anna\|auth=Bearer tok\|\|$/],
  ])('are sent to a server with %s by %s', async (offered, mechanism, payload) => {
    const server = await ScriptedServer.start({
      capabilities: `IMAP4rev1 NAMESPACE LIST-EXTENDED LIST-STATUS SASL-IR ${offered}`,
      answers: { AUTHENTICATE: (tag) => `${tag} OK in\r\n` },
    });
    closing.push(() => server.stop());
    const { origin } = open({ port: server.port }, { credential });
    expect((await origin.folders('', signal)).folders).toHaveLength(1);
    const line = server.lines.find((one) => one.startsWith('AUTHENTICATE')) ?? '';
    const [, used, text = ''] = line.split(' ');
    expect(used).toBe(mechanism);
    expect(Buffer.from(text, 'base64').toString().replaceAll('\x01', '|')).toMatch(payload);
  });

  test('are not sent to a server without OAuth', async () => {
    const server = await ScriptedServer.start({
      capabilities: 'IMAP4rev1 NAMESPACE AUTH=PLAIN',
    });
    closing.push(() => server.stop());
    const { origin } = open({ port: server.port }, { credential });
    await expect(origin.folders('', signal)).rejects.toMatchObject({
      code: 'imap.no-sign-in-method',
      family: 'auth',
    });
    expect(server.lines.join()).not.toContain('AUTHENTICATE');
  });
});
