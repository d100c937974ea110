import { existsSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, type Workplace, workplace } from './child.ts';

let sandbox: Sandbox;
let place: Workplace;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 30 } });
  place = workplace(sandbox);
});
afterAll(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const entry = z.object({
  mailbox: z.string(),
  folder: z.string(),
  uid: z.number(),
  reason: z.string(),
  acknowledged: z.boolean(),
  since: z.iso.datetime(),
});
const plan = z.object({
  messages: z.number(),
  requests: z.number(),
  mailboxes: z.array(
    z.object({ folders: z.array(z.object({ action: z.string(), reason: z.string() })) }),
  ),
});

test('what cannot be fetched is listed, acknowledged, kept quiet about, and stored when it can be', async () => {
  const { config, data } = place;
  const planned = await mailkeep(['sync', '--dry-run', '--json', '--config', config]);
  const before = plan.parse(JSON.parse(planned.stdout));
  expect(before.messages).toBe(30);
  expect(existsSync(data)).toBe(false);
  expect(before.requests).toBeGreaterThan(30);
  expect(before.mailboxes[0]?.folders[0]).toMatchObject({ action: 'walk', reason: 'new-folder' });
  sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource', times: 1 });

  expect((await mailkeep(['sync', '--config', config])).code).toBe(1);
  const listed = await mailkeep(['quarantine', '--json', '--data', data]);
  const [found, ...more] = jsonLines(listed.stdout).map((line) => entry.parse(line));
  expect(more).toEqual([]);
  expect(found).toMatchObject({ acknowledged: false });

  sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource' });
  const nothing = await mailkeep(['quarantine', 'ack', '--data', data]);
  expect(nothing.code).toBe(2);
  expect(nothing.stderr).toContain('--all');
  const { folder = '', uid = 0 } = found ?? {};
  const other = folder === 'INBOX.Drafts' ? 'INBOX.Trash' : 'INBOX.Drafts';
  const nowhere = ['--folder', other, '--uid', String(uid), '--data', data];
  const inVain = await mailkeep(['quarantine', 'ack', ...nowhere]);
  expect([inVain.code, inVain.stdout]).toEqual([2, '']);
  expect(inVain.stderr).toContain('Nothing in quarantine matches');
  const verified = () => mailkeep(['verify', '--origin', '--config', config]);
  const compared =
    /^30 places in \d+ folders compared with the service: 1 incomplete \("mailkeep quarantine" lists them\), no other difference\./m;
  const unsilenced = await verified();
  expect([unsilenced.code, unsilenced.stdout]).toEqual([1, expect.stringMatching(compared)]);
  expect(unsilenced.stderr).toContain('1 message of');
  const ack = ['quarantine', 'ack', '--folder', folder, '--uid', String(uid), '--data', data];
  expect((await mailkeep(ack)).stdout).toContain('1 message');
  const silenced = await verified();
  expect([silenced.code, silenced.stdout]).toEqual([0, expect.stringMatching(compared)]);
  const text = (await mailkeep(['quarantine', '--data', data])).stdout;
  expect(text).toContain('acknowledged');
  const inFolder = (name: string) => mailkeep(['quarantine', '--folder', name, '--data', data]);
  expect(await inFolder(other)).toMatchObject({
    code: 0,
    stderr: 'Nothing in quarantine matches your selection.\n',
  });
  const drafts = await inFolder(folder === 'INBOX.Drafts' ? 'trash' : 'drafts');
  expect(drafts).toMatchObject({
    code: 0,
    stderr: 'Nothing in quarantine matches your selection.\n',
  });
  expect((await inFolder(`${folder.slice(0, -1)}*`)).stdout).toContain('acknowledged');
  const unknown = await inFolder('Nowhere');
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toContain('The archive has no folder "Nowhere".');

  const quiet = await mailkeep(['sync', '--config', config]);
  expect(quiet.stdout).toContain('1 incomplete');
  expect(quiet.code).toBe(0);

  sandbox.clearFaults();
  const stored = await mailkeep(['sync', '--config', config]);
  expect(stored.code).toBe(0);
  expect(stored.stdout).not.toContain('incomplete');
  const none = await mailkeep(['quarantine', '--data', data]);
  expect([none.code, none.stdout, none.stderr]).toEqual([0, '', 'Nothing is in quarantine.\n']);
  const status = (await mailkeep(['status', '--data', data])).stdout;
  expect(status).toMatch(/INBOX .*compared [\d.]+ m?s ago/);
});
