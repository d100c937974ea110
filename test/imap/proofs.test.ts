import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { SyncResult } from '../../src/sync/result.ts';
import { type DovecotOptions, startDovecot, withoutDovecot } from './dovecot.ts';
import { letter } from './mirrored.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import type { MailServer } from './server.ts';
import { World } from './world.ts';

// What Dovecot does when its listing, or one of its answers, proves less than it seems to.

const HOUR = 3_600_000;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Starts Dovecot with letters 1 to `letters` in INBOX, and mirrors them through a proxy that may leave out lines. */
async function mirroredInbox(letters: number, options: DovecotOptions = {}) {
  const server = await startDovecot(options);
  closing.push(() => server.stop());
  let omits = (_line: string): boolean => false;
  const proxy = await ImapProxy.start({ to: server, readOnly: true, omits: (line) => omits(line) });
  closing.push(() => proxy.stop());
  const world = new World(server);
  closing.push(() => world.remove());
  await asOwner(server, async (client) => {
    for (let n = 1; n <= letters; n += 1) await client.append('INBOX', letter(n), '(\\Seen) ');
  });
  const sync = async (policy?: Parameters<World['sync']>[1]) => {
    const from = proxy.commands.length;
    const result = await world.sync(proxy.port, policy);
    const sent = proxy.commands.slice(from).map(({ verb }) => verb);
    return { ...result, opened: sent.includes('EXAMINE') };
  };
  await sync();
  return {
    ...{ server, world, sync },
    omit: (isOmitted: (line: string) => boolean) => {
      omits = isOmitted;
    },
  };
}

async function asOwner(server: MailServer, act: (client: RawClient) => Promise<unknown>) {
  const client = await RawClient.login(server);
  await client.command('SELECT INBOX');
  await act(client);
  client.close();
}

async function stateOfInbox(server: MailServer): Promise<string | undefined> {
  const client = await RawClient.login(server);
  const { untagged } = await client.command(
    'STATUS INBOX (MESSAGES UIDNEXT UIDVALIDITY UNSEEN HIGHESTMODSEQ)',
  );
  client.close();
  return /\(.*\)/.exec(untagged)?.[0];
}

/** Returns a function that restores the mail as it is now, with its indexes. */
function backUp({ home }: MailServer): () => void {
  const [mail, backup] = [path.join(home, 'mail'), path.join(home, 'backup')];
  execFileSync('cp', ['-a', mail, backup]);
  return () => {
    rmSync(mail, { recursive: true });
    execFileSync('cp', ['-a', backup, mail]);
  };
}

const inbox = ({ certificates }: SyncResult) =>
  certificates.find(({ folder }) => folder === 'INBOX');

describe.skipIf(withoutDovecot())('Dovecot', () => {
  test('lists a message without showing it: it is reported, and neither missed nor gone', async () => {
    const { server, world, sync, omit } = await mirroredInbox(30);
    const hide = (uids: readonly number[]) =>
      omit((line) => {
        const uid = /^\* \d+ FETCH \(UID (\d+) .*RFC822\.SIZE/.exec(line)?.[1];
        return uids.includes(Number(uid));
      });
    hide([7, 31]);
    await asOwner(server, (client) => client.append('INBOX', letter(31)));
    for (let i = 0; i < 2; i += 1) {
      const result = await sync({ full: i === 1, acceptEndings: true });
      const code = 'sync.messages-not-shown';
      expect(result.failures).toMatchObject([{ folder: 'INBOX', code, facts: { uids: [7, 31] } }]);
      expect(inbox(result)).toMatchObject({ originTotal: 31, stored: 30, complete: false });
    }
    hide([]);
    const result = await sync();
    expect(result.failures).toEqual([]);
    expect(inbox(result)).toMatchObject({ originTotal: 31, stored: 31, complete: true });
    expect(await world.mirrored()).toEqual(await world.atServer());
  }, 60_000);

  test('comes back from a backup, and soon lists the same as before', async () => {
    const { server, world, sync } = await mirroredInbox(5);
    const restore = backUp(server);
    await asOwner(server, (client) => client.append('INBOX', letter(6)));
    await sync();
    const before = await stateOfInbox(server);
    restore();
    await asOwner(server, (client) => client.append('INBOX', letter(7)));
    expect(await stateOfInbox(server)).toBe(before);

    world.clock.advance(25 * HOUR);
    await sync();
    expect(await world.mirrored()).toEqual(await world.atServer());
    expect(inbox(await sync())).toMatchObject({ originTotal: 6, stored: 6, complete: true });
  }, 60_000);

  test('comes back from a backup, and gets more mail than a page shows', async () => {
    const { server, world, sync } = await mirroredInbox(30);
    const restore = backUp(server);
    const receive = (from: number, to: number) =>
      asOwner(server, async (client) => {
        for (let n = from; n <= to; n += 1) await client.append('INBOX', letter(n));
      });
    await receive(31, 50);
    await sync();
    restore();
    await receive(51, 190);
    const result = await sync();
    expect(result.failures).toEqual([]);
    expect(inbox(result)).toMatchObject({ originTotal: 170, complete: true });
    expect(await world.mirrored()).toEqual(await world.atServer());
  }, 60_000);

  test('loses its index, and its modification sequences go back', async () => {
    const { server, world, sync } = await mirroredInbox(150);
    await asOwner(server, async (client) => {
      for (const how of ['+', '-', '+', '-', '+'])
        await client.command(`UID STORE 5 ${how}FLAGS (kw)`);
    });
    await sync();
    const user = path.join(server.home, 'mail', server.user);
    for (const file of readdirSync(user, { recursive: true, encoding: 'utf8' }))
      if (path.basename(file).startsWith('dovecot.index')) rmSync(path.join(user, file));
    await asOwner(server, async (client) => {
      await client.command('UID STORE 149 -FLAGS (\\Seen)');
      await client.command('UID STORE 3 +FLAGS (\\Flagged)');
    });
    await sync();
    expect(await world.mirrored()).toEqual(await world.atServer());
    expect((await sync()).opened).toBe(false);
  }, 60_000);

  test('lists modification sequences of folders that it opens without them', async () => {
    const mailLocation = 'maildir:~/mail:INDEX=MEMORY';
    const { server, world, sync } = await mirroredInbox(150, { mailLocation });
    for (const uids of ['3,149', '4,150']) {
      expect((await sync()).opened).toBe(true);
      const before = await stateOfInbox(server);
      await asOwner(server, (client) => client.command(`UID STORE ${uids} +FLAGS (\\Flagged)`));
      expect(await stateOfInbox(server)).toBe(before);
      // Starred messages are compared once an hour.
      world.clock.advance(2 * HOUR);
      expect(inbox(await sync())).toMatchObject({ complete: true });
      expect(await world.mirrored()).toEqual(await world.atServer());
    }
  }, 60_000);
});
