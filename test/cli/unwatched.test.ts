import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { daemonWorkplace } from '../daemon/running-daemon.ts';
import { mailkeep } from './child.ts';

const shape = z.object({
  stale: z.array(z.string()),
  mailboxes: z.array(
    z.object({
      address: z.string(),
      unwatched: z.boolean(),
      provenAt: z.string(),
      folders: z.array(
        z.object({ folder: z.string(), unwatched: z.boolean(), provenAt: z.string() }),
      ),
    }),
  ),
});

test('what the configuration has left out since it was synced is unwatched, and not stale', async () => {
  const sandbox = await startSandbox({ seed: 5, mail: { messages: 20 } });
  onTestFinished(() => sandbox.close());
  const place = daemonWorkplace(sandbox);
  onTestFinished(() => rmSync(place.folder, { recursive: true, force: true }));
  const config = z
    .looseObject({ accounts: z.array(z.looseObject({})) })
    .parse(JSON.parse(readFileSync(place.config, 'utf8')));
  const sync = async (selections: object, ...args: string[]): Promise<void> => {
    const accounts = config.accounts.map((account) => ({ ...account, ...selections }));
    writeFileSync(place.config, JSON.stringify({ ...config, accounts }));
    expect((await mailkeep(['sync', '--config', place.config, ...args])).code).toBe(0);
  };
  const status = async (maxAge: number) => {
    const args = ['status', '--json', '--max-age', `${maxAge}s`, '--data', place.data];
    return shape.parse(JSON.parse((await mailkeep(args)).stdout));
  };
  const [first, second] = sandbox.mailboxes.map(({ address }) => address);
  await sync({});
  const before = await status(0);
  expect(before.stale.sort()).toEqual([first, second].sort());
  expect(before.mailboxes.some(({ unwatched }) => unwatched)).toBe(false);
  const { folder } = before.mailboxes
    .find(({ address }) => address === first)
    ?.folders.find((one) => one.folder !== 'INBOX') ?? { folder: '' };

  await sync({ mailboxes: { exclude: [second] }, folders: { exclude: [folder] } });
  const after = await status(0);
  expect(after.stale).toEqual([first]);
  const kept = after.mailboxes.find(({ address }) => address === first);
  const left = kept?.folders.filter(({ unwatched }) => unwatched);
  expect(left?.map((one) => one.folder)).toEqual([folder]);
  // The age of the mailbox is that of what is watched.
  expect(kept?.provenAt.localeCompare(left?.[0]?.provenAt ?? '')).toBe(1);
  expect((await mailkeep(['status', '--data', place.data])).stdout).toContain(', unwatched');

  // A pass narrowed by hand leaves nothing out for good, and one that includes them watches them again.
  await sync({}, '--mailbox', first ?? '');
  expect((await status(0)).stale).toEqual([first]);
  await sync({});
  expect((await status(0)).stale.sort()).toEqual([first, second].sort());
});
