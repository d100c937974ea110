import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mail } from '../sync/model-origin.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';

let sandbox: Sandbox;
let place: Workplace;
beforeAll(async () => {
  sandbox = await startSandbox({
    seed: 5,
    addresses: ['ada@example.org'],
    mail: { messages: 40 },
  });
  place = workplace(sandbox);
});
afterAll(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const report = z.object({
  messages: z.number(),
  verified: z.number(),
  corrected: z.number(),
  differences: z.number(),
  findings: z.array(
    z.object({ folder: z.string(), uid: z.number().nullable(), difference: z.string() }),
  ),
});

async function examined() {
  const { code, stdout } = await mailkeep([
    'verify',
    '--origin',
    '--json',
    '--config',
    place.config,
  ]);
  return { code, ...report.parse(JSON.parse(stdout)) };
}

test('verify --origin names what differs, concludes nothing, and settles what was assumed', async () => {
  const { store } = sandbox.service;
  const [mailbox] = store.mailboxes.values();
  if (mailbox === undefined) throw new Error('the service has no mailbox');
  const inbox = store.folderFor(mailbox, 'INBOX');
  const archive = store.folderFor(mailbox, 'INBOX.Archive');
  expect((await mailkeep(['sync', '--config', place.config])).code).toBe(0);
  expect(await examined()).toMatchObject({ code: 0, differences: 0, messages: 40 });

  const [gone = 0, starred = 0, ...moving] = [...inbox.entries()].map(({ uid }) => uid);
  store.remove(inbox, gone);
  store.changeFlags(inbox, starred, ['\\Flagged'], []);
  const added = store.add(inbox, mail('late'), Date.UTC(2026, 5, 1), []);
  const found = await examined();
  expect(found.code).toBe(1);
  expect(found.findings).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ folder: 'INBOX', uid: gone, difference: 'not-listed' }),
      expect.objectContaining({ folder: 'INBOX', uid: starred, difference: 'other-flags' }),
      expect.objectContaining({ folder: 'INBOX', uid: added, difference: 'not-archived' }),
    ]),
  );
  expect(found.differences).toBe(3);
  expect((await examined()).differences).toBe(3);

  for (const uid of moving.slice(0, 5)) store.move(inbox, uid, archive);
  expect((await mailkeep(['sync', '--full', '--config', place.config])).code).toBe(0);
  const settled = await examined();
  expect(settled).toMatchObject({ code: 0, differences: 0, verified: 5, corrected: 0 });
  expect((await mailkeep(['status', '--data', place.data])).stdout).not.toContain('assumed');
});
