import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { openState, type StateFile } from '../../src/core/state.ts';
import type { CommandReport } from '../../src/imap/connection.ts';
import { GMAIL_BYTES_PER_DAY, Traffic, trafficStatus } from '../../src/imap/traffic.ts';
import { seeded } from '../bench/seeded.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { FakeTime } from '../daemon/fake-time.ts';
import { openAccount } from './account.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import { readBack } from './read-back.ts';
import { ScriptedServer } from './scripted-server.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const HISTORIES = Number(process.env.MAILKEEP_IMAP_HISTORIES ?? 2);
const signal = new AbortController().signal;
const newest = { page: 1, perPage: 100, order: 'descending' } as const;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function memory(): StateFile {
  const folder = mkdtempSync(path.join(tmpdir(), 'traffic-'));
  const state = openState(folder);
  closing.push(() => {
    state.close();
    rmSync(folder, { recursive: true });
  });
  return state;
}

const ada = { host: 'imap.example.org', account: 'ada' };

describe('the limit of a day', () => {
  test('counts what earlier processes used, and pauses until a tenth is free', () => {
    const state = memory();
    let now = Date.UTC(2026, 10, 30, 12);
    const open = (limit: number | null = 1_000) =>
      new Traffic({ ...ada, limit, memory: state, now: () => now });
    open().check();
    const first = open();
    first.add(600);
    first.save();
    now += HOUR;
    const second = open();
    expect(second.left).toBe(400);
    second.add(500);
    const until = '2026-12-01T12:10:00.000Z';
    expect(() => second.check()).toThrow(
      expect.objectContaining({ code: 'imap.day-limit', family: 'origin', retryable: false }),
    );
    const [stored] = state.entries('imap-traffic');
    expect(stored && trafficStatus(stored.value, now)).toEqual({
      ...{ limit: 1_000, bytes: 1_100, heldUntil: until, completeAt: null },
    });
    // A restart does not end the pause, and neither does an hour; a higher limit does.
    now += HOUR;
    expect(() => open().check()).toThrow(
      expect.objectContaining({ facts: { ...ada, limit: 1_000, until, completeAt: null } }),
    );
    open(2_000).check();
    open(null).check();
    now = Date.parse(until);
    open().check();
    expect(open().left).toBe(500);
  });

  test('a clock that was set back neither blocks for long nor forgets the day', () => {
    const state = memory();
    let now = Date.UTC(2026, 10, 30, 12);
    const traffic = new Traffic({ ...ada, limit: 1_000, memory: state, now: () => now });
    traffic.add(1_000);
    expect(() => traffic.check()).toThrow();
    now -= 30 * DAY;
    traffic.check();
    traffic.add(1_000);
    expect(() => traffic.check()).toThrow();
    // The first bytes count again when the clock is right.
    now += 30 * DAY + HOUR;
    const later = new Traffic({ ...ada, limit: 1_000, memory: state, now: () => now });
    expect(later.left).toBe(0);
  });

  test('bytes count if the clock is corrected by some minutes', () => {
    const state = memory();
    let now = Date.UTC(2026, 10, 30, 12);
    const open = () => new Traffic({ ...ada, limit: 1_000, memory: state, now: () => now });
    const traffic = open();
    traffic.add(1_000);
    expect(() => traffic.check()).toThrow();
    now -= 20 * 60_000;
    expect(() => traffic.check()).toThrow();
    traffic.add(1);
    traffic.save();
    expect(open().left).toBe(0);
    now += 2 * DAY;
    expect(open().left).toBe(1_000);
  });

  test('a higher limit ends the pause for good', () => {
    const state = memory();
    const now = Date.UTC(2026, 10, 30, 12);
    const open = (limit: number) => new Traffic({ ...ada, limit, memory: state, now: () => now });
    const first = open(1_000);
    first.add(1_200);
    expect(() => first.check()).toThrow();
    const higher = open(5_000);
    higher.check();
    higher.add(100);
    higher.endRun({ messages: 1, bytes: 100 }, 1_000);
    open(5_000).check();
    const [stored] = state.entries('imap-traffic');
    expect(stored && trafficStatus(stored.value, now)).toEqual({
      ...{ limit: 5_000, bytes: 1_300, heldUntil: null, completeAt: null },
    });
  });

  test('a limit that is no longer configured ends the pause', () => {
    const state = memory();
    const now = Date.UTC(2026, 10, 30, 12);
    const open = (limit?: number) => new Traffic({ ...ada, limit, memory: state, now: () => now });
    const first = open(1_000);
    first.add(1_200);
    expect(() => first.check()).toThrow();
    open().check();
    expect(open().limit).toBe(null);
    // The one that Gmail has is known before the first connection.
    open().learn(new Set(['X-GM-EXT-1']));
    const gmail = open();
    gmail.learn(new Set(['X-GM-EXT-1']));
    gmail.add(1);
    gmail.save();
    expect(open().limit).toBe(GMAIL_BYTES_PER_DAY);
  });

  test('Gmail has a limit without configuration, unless the configuration lifts it', () => {
    const gmail = new Set(['IMAP4REV1', 'X-GM-EXT-1']);
    const [known, lifted] = [undefined, null].map(
      (limit) => new Traffic({ ...ada, limit, now: () => 0 }),
    );
    known?.learn(gmail);
    lifted?.learn(gmail);
    expect([known?.limit, lifted?.limit]).toEqual([GMAIL_BYTES_PER_DAY, null]);
    known?.learn(new Set(['IMAP4REV1']));
    expect(known?.limit).toBe(null);
  });

  test('no 24 hours exceed it by more than one answer, whenever processes start and die', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = seeded('traffic', seed);
      const state = memory();
      let now = Date.UTC(2026, 10, 30);
      const limit = 10_000_000;
      const open = () => new Traffic({ ...ada, limit, memory: state, now: () => now });
      let traffic = open();
      const used: { at: number; bytes: number; uncounted: number }[] = [];
      for (let step = 0; step < 600; step += 1) {
        now += random.below(random.below(4) === 0 ? 2 * HOUR : 120_000);
        if (random.below(20) === 0) {
          if (random.below(2) === 0) traffic.save();
          const before = traffic.left;
          traffic = open();
          const uncounted = traffic.left - before;
          expect(uncounted, `seed ${seed}`).toBeLessThanOrEqual(4 * 1024 * 1024);
          used.push({ at: now, bytes: 0, uncounted });
        }
        try {
          traffic.check();
        } catch {
          continue;
        }
        const bytes = random.below(1_000_000);
        traffic.add(bytes);
        used.push({ at: now, bytes, uncounted: 0 });
        const day = used.filter(({ at }) => at > now - DAY);
        const sum = day.reduce((total, one) => total + one.bytes - one.uncounted, 0);
        expect(sum, `seed ${seed}`).toBeLessThan(limit + 1_000_000);
      }
      expect(used.length, `seed ${seed}`).toBeGreaterThan(20);
    }
  });
});

/** A folder with 3 messages of 400 kB. */
async function largeMail(): Promise<ScriptedServer> {
  const body = 'x'.repeat(400_000);
  const server = await ScriptedServer.start({
    answers: {
      'UID FETCH': (tag, line) => {
        const uids = [1, 2, 3].filter((uid) => line.includes('1:3') || line.includes(` ${uid} `));
        const items = line.includes('BODY.PEEK')
          ? `BODY[]<0> {${body.length}}\r\n${body}`
          : 'FLAGS () INTERNALDATE "01-Jan-2020 00:00:00 +0000" RFC822.SIZE 400000 ENVELOPE (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)';
        const all = uids.map((uid) => `* ${uid} FETCH (UID ${uid} ${items})\r\n`).join('');
        return `${all}${tag} OK done\r\n`;
      },
    },
  });
  closing.push(() => server.stop());
  return server;
}

test('an account stops at the limit before the next command, and continues a day later', async () => {
  const server = await largeMail();
  const time = new FakeTime();
  const state = memory();
  const reports: CommandReport[] = [];
  const open = () => {
    const traffic = new Traffic({ ...ada, limit: 500_000, memory: state, now: time.now });
    const account = openAccount(
      { port: server.port },
      { traffic, clock: time, most: 1, onCommand: (report) => reports.push(report) },
    );
    closing.push(() => account.connections.close());
    const at = { host: account.origin.host, mailbox: 'm', folder: 'INBOX' };
    return { ...account, source: (uid: number) => account.origin.source(at, uid, signal) };
  };
  const first = open();
  await first.origin.list(
    { host: first.origin.host, mailbox: 'm', folder: 'INBOX' },
    newest,
    signal,
  );
  const results = await Promise.allSettled([1, 2, 3].map((uid) => first.source(uid)));
  // Near the limit, one message is requested at a time.
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: { code: 'imap.day-limit', facts: { ...ada, limit: 500_000 } },
  });
  const fetches = reports.filter(({ command }) => command === 'UID FETCH');
  expect(fetches.map(({ result }) => result)).toEqual(['ok', 'ok', 'ok']);
  expect(fetches[1]?.bytes).toBeGreaterThan(400_000);
  await first.connections.close();

  const connections = server.connections;
  await expect(open().source(3)).rejects.toMatchObject({ code: 'imap.day-limit' });
  // It does not even connect.
  expect(server.connections).toBe(connections);
  await time.pass(DAY + HOUR);
  expect(await open().source(3)).toMatchObject({ kind: 'buffer' });
});

describe('pauses', () => {
  /** Refuses each of these commands once, and answers it the next time. */
  async function refusing(answers: Readonly<Record<string, string>>): Promise<ScriptedServer> {
    const left = new Map(Object.entries(answers));
    const server = await ScriptedServer.start({
      answers: {
        LIST: (tag) => {
          const refusal = left.get('LIST');
          left.delete('LIST');
          return refusal === undefined
            ? `* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 7 UNSEEN 0)\r\n${tag} OK done\r\n`
            : refusal.replaceAll('TAG', tag);
        },
      },
    });
    closing.push(() => server.stop());
    return server;
  }

  test.each([
    ['NO [LIMIT] slow down', 'TAG NO [LIMIT] slow down\r\n', 5_000],
    ['NO [THROTTLED]', 'TAG NO [THROTTLED] x\r\n', 5_000],
    ['NO [OVERQUOTA] of Gmail', 'TAG NO [OVERQUOTA] Account exceeded bandwidth limits.\r\n', 5_000],
    ['NO [UNAVAILABLE]', 'TAG NO [UNAVAILABLE] x\r\n', 5_000],
    ['NO [INUSE]', 'TAG NO [INUSE] x\r\n', 5_000],
    ['BYE [UNAVAILABLE]', '* BYE [UNAVAILABLE] x\r\n', 5_000],
    [
      'BAD of Exchange',
      'TAG BAD Request is throttled. Suggested Backoff Time: 92415 milliseconds\r\n',
      92_415,
    ],
    [
      'BYE of Exchange',
      '* BYE Request is throttled. Suggested Backoff Time: 899999 milliseconds\r\n',
      899_999,
    ],
  ])('after %s, nothing is sent until they are over', async (_, answer, ms) => {
    const server = await refusing({ LIST: answer });
    const time = new FakeTime();
    const waits: number[] = [];
    const { origin, connections } = openAccount(
      { port: server.port },
      {
        clock: time,
        retries: { attempts: 5, lostMs: 1_000, throttledMs: 5_000, mostMs: 60_000 },
        onWait: (until) => waits.push(until - time.now()),
      },
    );
    closing.push(() => connections.close());
    const folders = origin.folders('', signal);
    await expect.poll(() => waits).toEqual([ms]);
    // Another request, which would use another connection, waits as well.
    const sent = server.lines.length;
    const second = connections.use((session) => session.run('NOOP', 'NOOP'), signal);
    await time.pass(ms - 1);
    expect(server.lines.slice(sent)).toEqual([]);
    await time.pass(1);
    expect((await folders).folders).toHaveLength(1);
    expect((await second).status).toBe('OK');
  });

  test('what waits for a connection when one begins waits for its end', async () => {
    const server = await refusing({ LIST: 'TAG NO [LIMIT] x\r\n' });
    const time = new FakeTime();
    const waits: number[] = [];
    const retries = { attempts: 5, lostMs: 1_000, throttledMs: 5_000, mostMs: 60_000 };
    const { origin, connections } = openAccount(
      { port: server.port },
      { clock: time, most: 1, retries, onWait: (until) => waits.push(until - time.now()) },
    );
    closing.push(() => connections.close());
    const folders = origin.folders('', signal);
    const second = connections.use((session) => session.run('NOOP', 'NOOP'), signal);
    await expect.poll(() => waits).toEqual([5_000]);
    await time.pass(4_999);
    expect(server.lines).not.toContain('NOOP');
    await time.pass(1);
    expect((await folders).folders).toHaveLength(1);
    expect((await second).status).toBe('OK');
  });

  test('more than 15 minutes are not waited for', async () => {
    const server = await refusing({
      LIST: 'TAG NO Request is throttled. Suggested Backoff Time: 900001 milliseconds\r\n',
    });
    const { origin, connections } = openAccount({ port: server.port });
    closing.push(() => connections.close());
    await expect(origin.folders('', signal)).rejects.toMatchObject({
      code: 'imap.throttled',
      facts: { waitMs: 900_001 },
    });
  });

  test('an interrupted sync does not wait', async () => {
    const server = await refusing({ LIST: 'TAG NO [LIMIT] x\r\n' });
    const time = new FakeTime();
    const { origin, connections } = openAccount({ port: server.port }, { clock: time });
    closing.push(() => connections.close());
    const stop = new AbortController();
    const folders = origin.folders('', stop.signal);
    await expect.poll(() => server.lines.at(-1)).toMatch(/^LIST/);
    stop.abort(new Error('stopped'));
    await expect(folders).rejects.toThrow('stopped');
  });

  test('a throttled sign-in is repeated on our clock', async () => {
    let refusals = 1;
    const server = await ScriptedServer.start({
      answers: {
        LOGIN: (tag) => {
          refusals -= 1;
          return refusals < 0
            ? `${tag} OK done\r\n`
            : `${tag} NO Request is throttled. Suggested Backoff Time: 60000 milliseconds\r\n`;
        },
      },
    });
    closing.push(() => server.stop());
    const time = new FakeTime();
    const waits: number[] = [];
    const { origin, connections } = openAccount(
      { port: server.port },
      { clock: time, onWait: (until) => waits.push(until - time.now()) },
    );
    closing.push(() => connections.close());
    const folders = origin.folders('', signal);
    await expect.poll(() => waits).toEqual([60_000]);
    await time.pass(60_000);
    expect((await folders).folders).toHaveLength(1);
  });

  test('a refused connection is tried again an hour later', async () => {
    let most = 1;
    let open = 0;
    const server = await ScriptedServer.start({
      answers: {
        LOGIN: (tag, _line, socket) => {
          if (open >= most) return `${tag} NO [LIMIT] too many connections\r\n`;
          open += 1;
          socket.on('close', () => {
            open -= 1;
          });
          return `${tag} OK done\r\n`;
        },
      },
    });
    closing.push(() => server.stop());
    const time = new FakeTime();
    const { connections } = openAccount({ port: server.port }, { clock: time, most: 2 });
    closing.push(() => connections.close());
    const both = async () => {
      const gate = Promise.withResolvers<void>();
      let inside = 0;
      let peak = 0;
      const use = () =>
        connections.use(async () => {
          inside += 1;
          peak = Math.max(peak, inside);
          if (inside === most) gate.resolve();
          await gate.promise;
          inside -= 1;
        }, signal);
      await Promise.all([use(), use()]);
      return peak;
    };
    expect(await both()).toBe(1);
    expect(connections.budget).toBe(1);
    await time.pass(HOUR);
    expect(connections.budget).toBe(2);
    most = 2;
    expect(await both()).toBe(2);
  });
});

test.skipIf(withoutDovecot())('a first sync over several days, by the command line', async () => {
  const server = await startDovecot();
  closing.push(() => server.stop());
  const client = await RawClient.login(server);
  const line = `${'x'.repeat(998)}\r\n`;
  for (let n = 1; n <= 25; n += 1) {
    await client.append(
      'INBOX',
      `Message-ID: <${n}@x>\r\nSubject: ${n}\r\n\r\n${line.repeat(100)}`,
    );
  }
  client.close();
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-days-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const { host, port, user: name, password } = server;
  const imap = {
    ...{ host, port, tls: 'none', user: name, address: 'anna@example.org' },
    ...{ password: { command: ['printf', '%s\n', password] }, maxBytesPerDay: '1M' },
  };
  const config = path.join(folder, 'mailkeep.json');
  writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap }] }));
  let now = Date.UTC(2026, 10, 30, 12);
  const run = (...args: readonly string[]) =>
    mailkeep([...args, '--config', config], { now: () => now });

  const first = await run('sync');
  expect(first.code).toBe(1);
  expect(first.stderr).toContain(
    'The account main has reached the limit of 1.0 MB in 24 hours at 127.0.0.1 (imap.maxBytesPerDay).',
  );
  expect(first.stderr).toMatch(
    /The first sync after 2026-12-01 \S+ continues\.\n.*At this rate, all mail will be fetched around/,
  );
  const stored = async () => jsonLines((await run('list', '--json')).stdout).length;
  const before = await stored();
  expect(before).toBeGreaterThan(5);
  expect(before).toBeLessThan(12);
  const status = await run('status');
  expect(status.stdout).toMatch(
    /main at 127\.0\.0\.1: 1\.\d MB of 1\.0 MB exchanged in 24 hours; continues after 2026-12-01 \S+; all fetched around/,
  );
  now += HOUR;
  expect(await run('sync')).toMatchObject({ code: 1 });
  expect(await stored()).toBe(before);
  const codes: (number | null)[] = [];
  for (let day = 0; day < 3; day += 1) {
    now += DAY + HOUR;
    codes.push((await run('sync')).code);
  }
  expect(codes.at(-1)).toBe(0);
  expect(await stored()).toBe(25);
  expect((await run('status')).stdout).not.toContain('continues after');
});

test.skipIf(withoutDovecot()).each(Array.from({ length: HISTORIES }, (_, i) => i + 1))(
  'history %i of days, cuts and new mail ends in a complete mirror within the limit',
  async (seed) => {
    const random = seeded('imap days', seed);
    const server = await startDovecot();
    closing.push(() => server.stop());
    const proxy = await ImapProxy.start({ to: server, readOnly: true });
    closing.push(() => proxy.stop());
    const client = await RawClient.login(server);
    closing.push(() => client.close());
    let n = 0;
    const deliver = async (count: number) => {
      for (let i = 0; i < count; i += 1) {
        n += 1;
        const lines = `${'x'.repeat(998)}\r\n`.repeat(random.below(300));
        const folder = random.below(3) === 0 ? 'Archive' : 'INBOX';
        await client.append(folder, `Message-ID: <${n}@x>\r\nSubject: ${n}\r\n\r\n${lines}`);
      }
    };
    await deliver(20);
    const folder = mkdtempSync(path.join(tmpdir(), 'imap-days-'));
    closing.push(() => rmSync(folder, { recursive: true, force: true }));
    const { host, user: name, password } = server;
    const imap = {
      ...{ host, port: proxy.port, tls: 'none', user: name, address: 'anna@example.org' },
      ...{ password, maxBytesPerDay: '1M' },
    };
    const config = path.join(folder, 'mailkeep.json');
    writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap }] }), { mode: 0o600 });
    let now = Date.UTC(2026, 10, 30, 12);
    const run = (...args: readonly string[]) =>
      mailkeep([...args, '--config', config], { now: () => now });
    const passed: { readonly at: number; readonly bytes: number }[] = [];
    let code: number | null = null;
    let limited = 0;
    for (let step = 0; step < 60 && code !== 0; step += 1) {
      if (step < 6) await deliver(random.below(3));
      if (random.below(3) === 0) {
        void proxy.plan({ do: 'cut', to: 'client', afterBytes: random.below(400_000) });
      }
      const before = proxy.passed;
      const synced = await run('sync');
      code = synced.code;
      if (synced.stderr.includes('in 24 hours')) limited += 1;
      const { client: received, server: sent } = proxy.passed;
      passed.push({ at: now, bytes: received + sent - before.client - before.server });
      const day = passed.filter(({ at }) => at > now - DAY);
      const sum = day.reduce((total, { bytes }) => total + bytes, 0);
      // The last message that each of two connections had started, and what a cut connection had received.
      expect(sum, `step ${step}`).toBeLessThan(1_000_000 + 4 * 300_000);
      now += random.below(18) * HOUR;
    }
    expect(code).toBe(0);
    expect(limited).toBeGreaterThan(0);
    const mirrored = jsonLines((await run('list', '--json')).stdout).map(
      (one) => (one as { id: string }).id,
    );
    const there = (await readBack(server)).flatMap(({ messages }) => messages);
    expect(mirrored.sort()).toEqual(there.map(({ sha256 }) => sha256).sort());
  },
  120_000,
);
