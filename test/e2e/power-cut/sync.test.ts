import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep } from '../../cli/child.ts';
import { absent } from '../../peers/programs.ts';
import { deliverMore } from './some-archive.ts';
import { keepsCommits, sound, soundWithCommits } from './sound-archive.ts';
import type { Left } from './trial.ts';
import { powerCuts, WATCHDOG } from './trial.ts';

const MESSAGES = 24;
const MORE = 12;

// Requests are answered in another order each time: a seed draws the same kinds of cuts, and not of the same run.
describe.skipIf(absent('strace'))('a sync that loses its power', () => {
  let sandbox: Sandbox;
  beforeEach(async () => {
    sandbox = await startSandbox({ seed: 31, mail: { messages: MESSAGES } });
  });
  afterEach(() => sandbox.close());

  const dataIn = (work: string): string => path.join(work, 'data');
  const syncing = (work: string): string[] => ['sync', '--config', path.join(work, 'config.json')];

  function configure(work: string): void {
    const content = {
      accounts: [{ name: 'main', baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox }],
      dataDir: dataIn(work),
      rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
      minFreeBytes: 0,
    };
    writeFileSync(path.join(work, 'config.json'), JSON.stringify(content), { mode: 0o600 });
  }

  async function afterCut(work: string, left: Left): Promise<void> {
    const data = dataIn(work);
    // Before that is there it is no archive yet.
    if (existsSync(path.join(data, 'FORMAT'))) await soundWithCommits(data, left);
    else expect([left.committed, left.isOver]).toEqual([[], false]);
  }

  const holds = async (work: string, left: Left, messages: number): Promise<void> => {
    await keepsCommits(dataIn(work), left);
    expect(await sound(dataIn(work))).toMatchObject({ messages });
  };

  test(
    'the first: nothing that was committed is lost, and it resumes',
    () =>
      powerCuts({
        name: 'first sync',
        prepare: configure,
        args: syncing,
        afterCut,
        afterEnd: (work, left) => holds(work, left, MESSAGES),
      }),
    WATCHDOG,
  );

  test(
    'a later one, which seals a segment as well',
    () =>
      powerCuts({
        name: 'later sync with sealing',
        async prepare(work) {
          configure(work);
          expect((await mailkeep([...syncing(work), '--quiet'])).code).toBe(0);
          const writer = await openLogWriter({ dir: dataIn(work), now: Date.now });
          await writer.rollIfLarger(0);
          await writer.close();
          changeMailbox(sandbox);
        },
        args: syncing,
        afterCut,
        async afterEnd(work, left) {
          await holds(work, left, MESSAGES + MORE);
          expect(existsSync(path.join(dataIn(work), 'log', '0000000001.2.seg'))).toBe(true);
          expect(existsSync(path.join(dataIn(work), 'log', '0000000001.1.seg'))).toBe(false);
        },
      }),
    WATCHDOG,
  );
});

/** New mail, other flags, and a message that is gone. */
function changeMailbox(sandbox: Sandbox): void {
  const { store } = sandbox.service;
  const inbox = [...store.mailboxes.values()]
    .flatMap((mailbox) => [...mailbox.folders.values()])
    .find((folder) => folder.path === 'INBOX');
  const [first, second] = inbox?.entries() ?? [];
  if (inbox === undefined || first === undefined || second === undefined)
    throw new Error('no mail');
  store.remove(inbox, first.uid);
  store.changeFlags(inbox, second.uid, ['\\Flagged'], []);
  deliverMore(sandbox, MORE);
}
