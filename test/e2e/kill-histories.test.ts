import { once } from 'node:events';
import { rmSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Folder, Mailbox } from '../../src/sandbox/store.ts';
import { jsonLines, mailkeep, start, type Workplace, workplace } from '../cli/child.ts';
import { mail } from '../sync/model-origin.ts';

/**
 * Rounds of change and `kill -9`. `MAILKEEP_KILLS=300` runs as many new ones; the seed of every day is fixed, and
 * printed when a round fails.
 */
const { MAILKEEP_KILLS: wanted } = process.env;
const ROUNDS = wanted === undefined ? 12 : Number(wanted);
const SEED = wanted === undefined ? 20_261_121 : Date.now();
/** A full pass over all that is there, once the killing is over. */
const PER_ROUND_MS = 30_000;

let sandbox: Sandbox;
let place: Workplace;
beforeEach(async () => {
  sandbox = await startSandbox({
    seed: 3,
    addresses: ['ada@example.org'],
    mail: { messages: 150 },
  });
  place = workplace(sandbox);
});
afterEach(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const requests = (): number =>
  Object.values(sandbox.requests().byOperation).reduce((sum, count) => sum + count, 0);

/** Resolves when the service has answered so many requests more, or the process has ended by itself. */
async function afterRequests(more: number, ended: Promise<unknown>): Promise<void> {
  const until = requests() + more;
  let over = false;
  void ended.then(() => {
    over = true;
  });
  while (requests() < until && !over) await new Promise((resolve) => setImmediate(resolve));
}

interface Round {
  readonly delivered: number;
  readonly deleted: number;
  readonly moved: number;
  readonly flagged: number;
  /** Requests after which the process is killed. */
  readonly killedAfter: number;
  readonly full: boolean;
}

const round: fc.Arbitrary<Round> = fc.record({
  delivered: fc.nat(12),
  deleted: fc.nat(3),
  moved: fc.nat(4),
  flagged: fc.nat(4),
  killedAfter: fc.nat(70),
  full: fc.boolean(),
});

let made = 0;

function change(mailbox: Mailbox, of: Round): void {
  const { store } = sandbox.service;
  const inbox = store.folderFor(mailbox, 'INBOX');
  const archive = store.folderFor(mailbox, 'INBOX.Archive');
  const uids = (folder: Folder): number[] => [...folder.entries()].map(({ uid }) => uid);
  for (let i = 0; i < of.delivered; i += 1) {
    made += 1;
    store.add(inbox, mail(`new ${made}`), Date.UTC(2026, 5, 1) + made * 1000, []);
  }
  for (const uid of uids(inbox).slice(3, 3 + of.moved)) store.move(inbox, uid, archive);
  for (const uid of uids(inbox).slice(0, of.deleted)) store.remove(inbox, uid);
  for (const uid of uids(archive).slice(0, of.flagged)) {
    store.changeFlags(archive, uid, ['\\Flagged'], []);
  }
}

const listLine = z.object({ folder: z.string(), uid: z.number(), flags: z.array(z.string()) });

describe('kill -9', () => {
  it(`in each of ${ROUNDS} rounds of change leaves an archive that ends up equal to the service`, {
    timeout: 120_000 + ROUNDS * PER_ROUND_MS,
  }, async () => {
    const [mailbox] = sandbox.service.store.mailboxes.values();
    if (mailbox === undefined) throw new Error('the service has no mailbox');
    const rounds = fc.sample(round, { seed: SEED, numRuns: ROUNDS });
    try {
      for (const of of rounds) {
        change(mailbox, of);
        const more = of.full ? ['--full'] : [];
        const args = ['sync', '--config', place.config, '--quiet', ...more];
        const { child, ended } = start(args);
        await afterRequests(of.killedAfter, ended);
        child.kill('SIGKILL');
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
        const { stderr } = await ended;
        expect(stderr).not.toMatch(/damage/i);
      }
      // A folder or a mailbox may still be held, or a listing wanted twice: three passes settle everything.
      for (let i = 0; i < 3; i += 1) {
        const args = ['sync', '--full', '--accept-endings', '--json', '--config', place.config];
        const { code, stderr } = await mailkeep(args);
        expect([code, stderr]).toEqual([0, '']);
      }
      const { stdout } = await mailkeep(['list', '--json', '--data', place.data]);
      const mirrored = jsonLines(stdout).map((line) => {
        const { folder, uid, flags } = listLine.parse(line);
        return `${folder}/${uid} ${[...flags].sort().join(' ')}`;
      });
      const there = [...mailbox.folders.values()].flatMap((folder) =>
        [...folder.entries()].map(
          ({ uid, flags }) => `${folder.path}/${uid} ${[...flags].sort().join(' ')}`,
        ),
      );
      expect(mirrored.sort()).toEqual(there.sort());
      const { code } = await mailkeep(['verify', '--data', place.data]);
      expect(code).toBe(0);
    } catch (error) {
      throw new Error(`seed ${SEED}, ${ROUNDS} rounds`, { cause: error });
    }
  });
});
