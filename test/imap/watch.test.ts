import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { watchChanges } from '../../src/imap/watch.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { FakeTime } from '../daemon/fake-time.ts';
import { NEVER, RunningDaemon } from '../daemon/running-daemon.ts';
import { openAccount } from './account.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import { type Script, ScriptedServer } from './scripted-server.ts';
import type { MailServer } from './server.ts';

const MINUTE = 60_000;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Watched {
  readonly server: ScriptedServer;
  readonly time: FakeTime;
  readonly stop: AbortController;
  readonly ended: Promise<unknown>;
  readonly notified: number[];
  readonly connections: ReturnType<typeof openAccount>['connections'];
  /** Sends text to the session that is in IDLE. */
  send(text: string): void;
  /** Waits for the nth IDLE, counted from 1. */
  idling(nth: number): Promise<void>;
}

/** Watches a scripted server. Its IDLE ends with DONE. */
async function watched(
  capabilities: string,
  answers: NonNullable<Script['answers']> = {},
  most = 2,
): Promise<Watched> {
  const server = await ScriptedServer.start({
    capabilities: `IMAP4rev1 NAMESPACE LIST-STATUS ${capabilities}`,
    answers,
  });
  closing.push(() => server.stop());
  const time = new FakeTime();
  const { connections } = openAccount({ port: server.port }, { clock: time, most });
  closing.push(() => connections.close());
  const stop = new AbortController();
  closing.push(() => stop.abort());
  const notified: number[] = [];
  const ended = watchChanges(connections, () => notified.push(time.now()), stop.signal, time);
  const outcome = ended.then(
    (end) => end,
    (error: unknown) => error,
  );
  return {
    ...{ server, time, stop, notified, connections, ended: outcome },
    send: (text) => server.idle?.socket.write(text),
    idling: (nth) =>
      expect.poll(() => server.lines.filter((line) => line === 'IDLE').length).toBe(nth),
  };
}

/** Lets seconds pass until there were as many notifications. */
async function reach({ time, notified }: Watched, count: number): Promise<void> {
  await expect
    .poll(async () => {
      await time.pass(1_000);
      return notified.length;
    })
    .toBe(count);
}

describe('IDLE', () => {
  test('watches INBOX, and notifies once for changes that come together', async () => {
    const watch = await watched('IDLE');
    await watch.idling(1);
    expect(watch.server.lines).toContain('EXAMINE "INBOX"');
    // Something may have changed before the connection.
    await reach(watch, 1);
    await watch.time.pass(MINUTE);
    watch.send('* OK Still here\r\n* 4 EXISTS\r\n* 1 RECENT\r\n* 5 EXISTS\r\n');
    await reach(watch, 2);
    await watch.time.pass(MINUTE);
    watch.send('* OK Still here\r\n* 2 EXPUNGE\r\n* 1 FETCH (FLAGS (\\Seen))\r\n');
    await reach(watch, 3);
    await watch.time.pass(MINUTE);
    expect(watch.notified).toHaveLength(3);
  });

  test('a flood of changes makes at most a notification a minute', async () => {
    const watch = await watched('IDLE');
    await watch.idling(1);
    await reach(watch, 1);
    for (let second = 0; second < 600; second += 1) {
      watch.send('* 4 EXISTS\r\n'.repeat(20));
      await watch.time.pass(1_000);
    }
    // 2, 4, 8, 16 and 32 seconds after each other, then every minute.
    expect(watch.notified.length).toBeGreaterThan(2);
    expect(watch.notified.length).toBeLessThan(18);
  });

  test('is renewed within 29 minutes, and closed if DONE is not answered', async () => {
    const { server, time, idling } = await watched('IDLE');
    await idling(1);
    await time.pass(28 * MINUTE);
    await idling(2);
    expect(server.lines.filter((line) => line === 'DONE')).toHaveLength(1);
    expect(server.connections).toBe(1);
    // The server no longer answers DONE.
    server.idle = undefined;
    await expect
      .poll(async () => {
        await time.pass(MINUTE);
        return server.connections;
      })
      .toBe(2);
  });

  test('reconnects with growing delays, and looks for changes each time', async () => {
    const { server, time, notified } = await watched('IDLE', {
      IDLE: (_tag, _line, socket) => {
        socket.end('+ idling\r\n* BYE restarting\r\n');
        return undefined;
      },
    });
    const attempts = () => server.lines.filter((line) => line === 'IDLE').length;
    await expect.poll(attempts).toBe(1);
    const startedAt = time.now();
    await expect
      .poll(
        async () => {
          await time.pass(1_000);
          return attempts();
        },
        { interval: 1, timeout: 20_000 },
      )
      .toBe(6);
    // 5, 10, 20, 40 and 80 seconds.
    expect(time.now() - startedAt).toBeGreaterThanOrEqual(155_000);
    expect(notified.length).toBeLessThanOrEqual(6);
  }, 30_000);

  test('pauses if the server ends IDLE at once', async () => {
    const watch = await watched('IDLE', { IDLE: (tag) => `+ idling\r\n${tag} OK done\r\n` });
    await watch.idling(1);
    await watch.time.pass(4_000);
    await watch.idling(1);
    await watch.time.pass(1_000);
    await watch.idling(2);
  });

  test.each(['what is this', '* 4 EXISTS (', '+ idling again'])(
    'connects again, and looks, after "%s"',
    async (line) => {
      const watch = await watched('IDLE');
      await watch.idling(1);
      await reach(watch, 1);
      watch.send(`${line}\r\n`);
      await reach(watch, 2);
      await watch.idling(2);
      expect(watch.server.connections).toBe(2);
      expect(watch.server.lines).not.toContain('DONE');
    },
  );

  test('waits 15 minutes at most, however long the server asks for', async () => {
    const { server, time } = await watched('IDLE', {
      LOGIN: (tag) => `${tag} NO Suggested Backoff Time: 2000000000 milliseconds\r\n`,
    });
    const startedAt = time.now();
    await expect
      .poll(async () => {
        await time.pass(MINUTE);
        return server.connections;
      })
      .toBe(2);
    expect(time.now() - startedAt).toBeLessThan(20 * MINUTE);
  });

  test('a refused sign-in ends it', async () => {
    const { server, ended, time } = await watched('IDLE', {
      LOGIN: (tag) => `${tag} NO [AUTHENTICATIONFAILED] no\r\n`,
    });
    expect(await ended).toMatchObject({ code: 'imap.sign-in-refused' });
    await time.pass(60 * MINUTE);
    expect(server.connections).toBe(1);
  });

  test('without IDLE, or with a single connection, only the schedule looks', async () => {
    const without = await watched('UNSELECT');
    expect(await without.ended).toBe('unsupported');
    const single = await watched('IDLE', {}, 1);
    expect(await single.ended).toBe('one-connection');
    expect(single.server.connections).toBe(0);
  });

  test('makes room if the server refuses the connection that a sync needs', async () => {
    let open = 0;
    const { ended, connections, idling } = await watched('IDLE', {
      LOGIN: (tag, _line, socket) => {
        if (open > 0) return `${tag} NO [LIMIT] too many connections\r\n`;
        open += 1;
        socket.on('close', () => {
          open -= 1;
        });
        return `${tag} OK done\r\n`;
      },
    });
    await idling(1);
    const sync = connections.use(async () => 'synced', new AbortController().signal);
    expect(await ended).toBe('one-connection');
    expect(await sync).toBe('synced');
  });

  test('ends at once when the daemon stops', async () => {
    const { stop, ended, idling } = await watched('IDLE');
    await idling(1);
    stop.abort(new Error('stopping'));
    expect(await ended).toMatchObject({ message: 'stopping' });
  });
});

describe('NOTIFY', () => {
  test('watches all folders, without opening one', async () => {
    const watch = await watched('IDLE NOTIFY');
    await watch.idling(1);
    const { server } = watch;
    expect(server.lines.some((line) => line.startsWith('EXAMINE'))).toBe(false);
    expect(server.lines.find((line) => line.startsWith('NOTIFY'))).toBe(
      'NOTIFY SET (personal (MessageNew MessageExpunge FlagChange MailboxName))',
    );
    await reach(watch, 1);
    await watch.time.pass(MINUTE);
    watch.send('* STATUS Archive (MESSAGES 7 UIDNEXT 9)\r\n');
    await reach(watch, 2);
  });

  test('falls back to INBOX if the server refuses the events', async () => {
    const { server, idling } = await watched('IDLE NOTIFY', {
      NOTIFY: (tag) => `${tag} NO [BADEVENT (MessageNew)] no\r\n`,
    });
    await idling(1);
    expect(server.lines).toContain('EXAMINE "INBOX"');
  });

  test('an overflow counts as a change, and notifications are requested again', async () => {
    const watch = await watched('IDLE NOTIFY');
    await watch.idling(1);
    await reach(watch, 1);
    await watch.time.pass(MINUTE);
    watch.send('* OK [NOTIFICATIONOVERFLOW] too many\r\n');
    await reach(watch, 2);
    await watch.time.pass(20 * MINUTE);
    await watch.idling(2);
    expect(watch.server.lines.filter((line) => line.startsWith('NOTIFY'))).toHaveLength(2);
  });
});

describe.skipIf(withoutDovecot())('the daemon', () => {
  async function place(settings: object = {}, start: () => Promise<MailServer> = startDovecot) {
    const server = await start();
    closing.push(() => server.stop());
    const proxy = await ImapProxy.start({ to: server, readOnly: true });
    closing.push(() => proxy.stop());
    const folder = mkdtempSync(path.join(tmpdir(), 'imap-watch-'));
    closing.push(() => rmSync(folder, { recursive: true, force: true }));
    const { host, user, password } = server;
    const imap = {
      ...{ host, port: proxy.port, tls: 'none', user, address: 'anna@example.org' },
      ...{ password: { command: ['printf', '%s\n', password] }, ...settings },
    };
    const config = path.join(folder, 'mailkeep.json');
    const schedule = { sync: NEVER, sweep: NEVER, verify: NEVER };
    writeFileSync(path.join(folder, 'password'), 'wrong');
    writeFileSync(
      config,
      JSON.stringify({ accounts: [{ name: 'main', imap }], schedule, log: { level: 'debug' } }),
    );
    const daemon = new RunningDaemon({ folder, config, data: path.join(folder, 'data') });
    closing.push(() => daemon.end());
    const client = await RawClient.login(server);
    closing.push(() => client.close());
    const subjects = async () =>
      jsonLines((await mailkeep(['list', '--json', '--config', config])).stdout).map(
        (one) => (one as { subject: string }).subject,
      );
    return { server, proxy, daemon, client, subjects, folder, config };
  }

  test('archives new mail in any folder without waiting for the schedule', async () => {
    const { proxy, daemon, client, subjects, config } = await place();
    await daemon.line(({ msg }) => msg === 'an account is watched for changes');
    await expect
      .poll(() => proxy.commands.filter(({ verb }) => verb === 'IDLE').length, { timeout: 10_000 })
      .toBeGreaterThan(0);
    for (const [folder, subject] of [
      ['INBOX', 'first'],
      ['Archive', 'second'],
    ] as const) {
      await client.append(folder, `Subject: ${subject}\r\nMessage-ID: <${subject}@x>\r\n\r\nx\r\n`);
      await expect.poll(subjects, { timeout: 40_000, interval: 500 }).toContain(subject);
    }
    await client.command('SELECT INBOX');
    await client.command('STORE 1 +FLAGS (\\Flagged)');
    const flags = async () =>
      jsonLines((await mailkeep(['list', '--json', '--config', config])).stdout).flatMap(
        (one) => (one as { flags: string[] }).flags,
      );
    await expect.poll(flags, { timeout: 40_000, interval: 500 }).toContain('\\Flagged');
    // The connection breaks, and mail arrives meanwhile.
    proxy.cutAll();
    await client.append('INBOX', 'Subject: third\r\nMessage-ID: <third@x>\r\n\r\nx\r\n');
    await expect.poll(subjects, { timeout: 40_000, interval: 500 }).toContain('third');
    expect(proxy.happened).toEqual([]);
    expect(await daemon.end()).toBe(0);
    const late = 'work in progress did not finish in time and was aborted';
    expect(daemon.lines.some(({ msg }) => msg === late)).toBe(false);
  }, 120_000);

  test.skipIf(withoutCyrus())(
    'archives new mail in INBOX of a server with IDLE alone',
    async () => {
      const { proxy, daemon, client, subjects } = await place({}, startCyrus);
      await daemon.line(({ msg }) => msg === 'an account is watched for changes');
      await expect
        .poll(() => proxy.commands.filter(({ verb }) => verb === 'IDLE').length, {
          timeout: 10_000,
        })
        .toBeGreaterThan(0);
      await client.append('INBOX', 'Subject: first\r\nMessage-ID: <first@x>\r\n\r\nx\r\n');
      await expect.poll(subjects, { timeout: 40_000, interval: 500 }).toContain('first');
      expect(proxy.verbs).not.toContain('NOTIFY');
      expect(proxy.happened).toEqual([]);
    },
    120_000,
  );

  test('a refused sign-in is tried again when the password file changes', async () => {
    const { proxy, daemon, folder, server } = await place({ password: { file: './password' } });
    await daemon.line(({ msg }) => msg === 'the server refuses the sign-in; the account waits');
    const signIns = () =>
      proxy.commands.filter(({ verb }) => verb === 'LOGIN' || verb === 'AUTHENTICATE').length;
    expect(signIns()).toBe(1);
    writeFileSync(path.join(folder, 'password'), server.password);
    await daemon.line(({ msg }) => msg === 'the account is back');
    await daemon.line(({ msg }) => msg === 'an account is watched for changes');
    expect(signIns()).toBeLessThanOrEqual(4);
  }, 60_000);

  test('only follows the schedule with a single connection', async () => {
    const { proxy, daemon } = await place({ connections: 1 });
    await daemon.line(
      ({ msg }) => msg === 'an account cannot be watched for changes; its schedule finds them',
    );
    expect(proxy.commands.some(({ verb }) => verb === 'IDLE')).toBe(false);
  }, 60_000);
});
