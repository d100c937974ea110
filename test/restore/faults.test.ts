import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import type { RestoreConnection } from '../../src/transfer/imap-connection.ts';
import type { RestoreResult } from '../../src/transfer/run-restore.ts';
import { seeded } from '../bench/seeded.ts';
import { StoredArchive, sha256 } from '../export/stored-archive.ts';
import { type Dovecot, startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { randomFault } from '../imap/faults.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { mailBelow } from '../imap/read-back.ts';
import { Restoring } from './restoring.ts';

const without = withoutDovecot();

/** Runs of the test, of which there are more by hand. */
const RUNS = Number(process.env.MAILKEEP_RESTORES ?? '8');
const SEED = Number(process.env.MAILKEEP_RESTORE_SEED ?? '20261123');
/** A run that is not whole after so many commands will never be. */
const MAX_COMMANDS = 12;

let server: Dovecot;
let archive: StoredArchive;
/** Folder and hash of each message, once for each place. */
let wanted: string[];

beforeAll(async () => {
  if (without) return;
  server = await startDovecot({ specialFolders: false });
  archive = await StoredArchive.create();
  const letters = Array.from({ length: 14 }, (_, i) => {
    // Some are there twice, some have no Message-ID, one is larger than a packet.
    const number = i % 11;
    const head = number % 3 === 0 ? '' : `Message-ID: <${number}@x>\r\n`;
    const body = 'x'.repeat(number === 5 ? 90_000 : number);
    return {
      folder: ['INBOX', 'Sent', 'Work'][i % 3] ?? 'INBOX',
      source: Buffer.from(`${head}Subject: ${number}\r\n\r\n${body}\r\n`),
      ...(number % 3 === 0 ? {} : { messageId: `<${number}@x>` }),
    };
  });
  wanted = letters.map(({ folder, source }) => `${folder} ${sha256(source)}`).sort();
  await archive.store(letters, { delimiter: '/' });
});
afterAll(async () => {
  await server?.stop();
  archive?.remove();
});

/** A client that is killed before or after it sends one of its commands. */
function killable(connection: RestoreConnection, step: () => void): RestoreConnection {
  return new Proxy(connection, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      const act = value.bind(target);
      if (!['append', 'create', 'select'].includes(String(name))) return act;
      return async (...args: unknown[]) => {
        step();
        const result: unknown = await act(...args);
        step();
        return result;
      };
    },
  });
}

describe.skipIf(without)('whatever breaks, the same command makes it whole', () => {
  test.each(Array.from({ length: RUNS }, (_, i) => SEED + i))('with seed %i', async (seed) => {
    const random = seeded('restore', seed);
    const user = new Restoring(archive, server);
    const prefix = `Run ${seed}`;
    const doubled: RestoreResult['doubled'][number][] = [];
    try {
      for (let command = 1; ; command += 1) {
        expect(command).toBeLessThan(MAX_COMMANDS);
        const proxy = await ImapProxy.start({
          to: server,
          // Fewer each time, so that it ends.
          faults: Array.from({ length: Math.max(0, 6 - command) }, () =>
            randomFault(random, { commands: wanted.length, bytes: 120_000 }),
          ),
        });
        user.whileWaiting = () => proxy.deliver();
        const killAt = random.below(2) === 0 ? random.below(60) : Number.POSITIVE_INFINITY;
        const restartAt = random.below(5) === 0 ? random.below(14) : Number.POSITIVE_INFINITY;
        let steps = 0;
        let isKilled = false;
        const result = await user
          .run(proxy.port, {
            destination: { kind: 'into', levels: [prefix] },
            wrap: (connection) =>
              killable(connection, () => {
                steps += 1;
                if (steps !== killAt) return;
                isKilled = true;
                user.die();
                throw new Error('killed');
              }),
            onProgress: (progress) => {
              if (progress.step === 'sending' && progress.done === restartAt) void restart();
            },
          })
          .catch((error: unknown) => {
            // Nor does a connection that breaks before anything is known say more.
            const isOrigin = error instanceof MailkeepError && error.family === 'origin';
            if (isKilled || isOrigin) return undefined;
            throw error;
          });
        await restarting;
        // What the server has got it stores, whoever has gone.
        await proxy.deliver();
        await proxy.stop();
        if (result === undefined || result.ended !== null) continue;
        doubled.push(...result.doubled);
        expect(result.lost).toEqual([]);
        // A message that breaks three connections in a row is refused, and sent again by the next command.
        if (result.due + result.refused === 0) break;
      }
      const there = (await mailBelow(server, `${prefix}/`)).map(
        ({ folder, sha256: hash }) => `${folder.slice(prefix.length + 1)} ${hash}`,
      );
      const missing = [...wanted];
      const twice = there.filter((one) => {
        const at = missing.indexOf(one);
        if (at >= 0) missing.splice(at, 1);
        return at < 0;
      });
      expect(missing).toEqual([]);
      expect(twice).toHaveLength(doubled.length);
    } finally {
      user.remove();
    }
  });
});

let restarting: Promise<void> = Promise.resolve();

/** The server crashes and is there again. */
function restart(): Promise<void> {
  restarting = server.kill().then(() => server.restart());
  return restarting;
}
