import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { openState, readState } from '../../src/core/state.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { listIssues } from '../../src/verify/issues.ts';
import { recordVerification } from '../../src/verify/verification.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';

const MESSAGES = 20;
let sandbox: Sandbox;
let place: Workplace;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: MESSAGES } });
  place = workplace(sandbox);
});
afterEach(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const shape = z.object({
  stale: z.array(z.string()),
  mailboxes: z.array(
    z.object({
      address: z.string(),
      unwatched: z.boolean(),
      provenAt: z.string().nullable(),
      complete: z.boolean(),
      folders: z.array(
        z.object({ folder: z.string(), unwatched: z.boolean(), provenAt: z.string() }),
      ),
    }),
  ),
});

/** Syncs with these fields in each account of the configuration. */
async function syncWith(selections: object, ...args: string[]): Promise<void> {
  expect((await configuredWith(selections, 'sync', ...args)).code).toBe(0);
}

async function configuredWith(selections: object, command: string, ...args: string[]) {
  const { config } = place;
  const text = readFileSync(config, 'utf8');
  const content = z.looseObject({ accounts: z.array(z.looseObject({})) }).parse(JSON.parse(text));
  const accounts = content.accounts.map((account) => ({ ...account, ...selections }));
  writeFileSync(config, JSON.stringify({ ...content, accounts }));
  const result = await mailkeep([command, '--config', config, ...args]);
  writeFileSync(config, text);
  return result;
}

const status = (...args: string[]) => mailkeep(['status', '--data', place.data, ...args]);

async function statusJson(maxAge: string) {
  return shape.parse(JSON.parse((await status('--json', '--max-age', maxAge)).stdout));
}

/** What monitoring reads. */
function monitored() {
  const catalog = openCatalogReader(place.data);
  const state = readState(place.data);
  const found = archiveStatus({ catalog, dataDir: place.data }, state, 0);
  state?.close();
  catalog.close();
  return found;
}

test('what the configuration has left out since it was synced is unwatched, and not stale', async () => {
  const [first = '', second = ''] = sandbox.mailboxes.map(({ address }) => address);
  await syncWith({});
  const before = await statusJson('0s');
  expect(before.stale.sort()).toEqual([first, second].sort());
  expect(before.mailboxes.some(({ unwatched }) => unwatched)).toBe(false);
  const { folder } = before.mailboxes
    .find(({ address }) => address === first)
    ?.folders.find((one) => one.folder !== 'INBOX') ?? { folder: '' };

  await syncWith({ mailboxes: { exclude: [second] }, folders: { exclude: [folder] } });
  const after = await statusJson('0s');
  expect(after.stale).toEqual([first]);
  const kept = after.mailboxes.find(({ address }) => address === first);
  const left = kept?.folders.filter(({ unwatched }) => unwatched);
  expect(left?.map((one) => one.folder)).toEqual([folder]);
  // The age of the mailbox is that of what is watched.
  expect(kept?.provenAt?.localeCompare(left?.[0]?.provenAt ?? '')).toBe(1);
  expect((await status()).stdout).toContain(', unwatched');

  // A pass narrowed by hand leaves nothing out for good, and one that includes them watches them again.
  await syncWith({}, '--mailbox', first);
  expect((await statusJson('0s')).stale).toEqual([first]);
  await syncWith({});
  expect((await statusJson('0s')).stale.sort()).toEqual([first, second].sort());
});

test('a configuration that selects nothing fails, and leaves every mailbox stale', async () => {
  const [first = '', second = ''] = sandbox.mailboxes.map(({ address }) => address);
  await syncWith({});
  for (const [setting, typed, meant] of [
    ['folders', 'Inbx', 'INBOX'],
    ['mailboxes', first.replace('ada', 'adda'), first],
  ] as const) {
    const selections = { [setting]: { include: [typed] } };
    const advice = `Nothing matches "${typed}" (${setting}.include). Did you mean "${meant}"?`;
    const sync = await configuredWith(selections, 'sync');
    expect([sync.code, sync.stderr]).toEqual([1, expect.stringContaining(advice)]);
    expect((await statusJson('0s')).stale.sort()).toEqual([first, second].sort());
    const doctor = await configuredWith(selections, 'doctor');
    expect(doctor.stdout).toContain(advice);
    const verify = await configuredWith(selections, 'verify', '--origin');
    expect([verify.code, verify.stdout]).toEqual([
      1,
      expect.stringContaining('Nothing was compared'),
    ]);
  }
  const some = { mailboxes: { include: [first, 'offise@*'] } };
  const sync = await configuredWith(some, 'sync');
  expect([sync.code, sync.stdout]).toEqual([
    0,
    expect.stringContaining('Nothing matches "offise@*"'),
  ]);
  expect((await statusJson('0s')).stale).toEqual([first]);
});

test('a mailbox that no pass has got to yet is shown as not compared, and is stale', async () => {
  const [first = '', second = ''] = sandbox.mailboxes.map(({ address }) => address);
  await syncWith({}, '--mailbox', first);
  const text = await status('--max-age', '1h');
  expect(text.code).toBe(1);
  expect(text.stdout).toContain(`${second}  0 places, STALE: not compared`);
  expect(text.stdout).toContain(`Stale: ${second}`);
  const json = await statusJson('1h');
  expect(json.stale).toEqual([second]);
  expect(json.mailboxes).toContainEqual(
    expect.objectContaining({ address: second, provenAt: null, complete: false }),
  );
  // Monitoring says the same.
  const { mailboxes } = monitored();
  const counts = { verification: null, messages: 0, pending: 0 };
  const issues = listIssues({ mailboxes, ...counts }, { copies: [], maxAgeMs: 1e15, now: 1e15 });
  const stale = issues.flatMap((issue) => (issue.kind === 'mailbox-stale' ? [issue.mailbox] : []));
  expect(stale.map(({ address }) => address)).toEqual([second]);

  // One that the configuration leaves out waits for nothing.
  await syncWith({ mailboxes: { exclude: [second] } });
  expect((await status('--max-age', '1h')).code).toBe(0);
  expect((await status()).stdout).not.toContain(second);

  await syncWith({});
  expect((await status('--max-age', '1h')).code).toBe(0);
  expect((await status()).stdout).not.toContain('not compared');
});

const iso = (at: number): string => new Date(at).toISOString();

test('monitoring sees what a sync left: mailboxes, sizes, certificates, the last verification', async () => {
  const before = Date.now();
  await syncWith({});
  const writable = openState(place.data);
  recordVerification(writable, {
    ...{
      at: before,
      endedAt: before,
      mode: 'quick',
      checked: 0,
      of: MESSAGES,
      found: 2,
      findings: [],
    },
    covers: () => false,
  });
  writable.close();

  const status = monitored();
  expect(status).toMatchObject({
    messages: MESSAGES,
    pending: 0,
    verification: { at: iso(before), ok: false, fullAt: null, damagedSince: iso(before), found: 2 },
  });
  expect(status.mailboxes.map(({ resourceId }) => resourceId).sort()).toEqual(
    sandbox.mailboxes.map(({ resourceId }) => resourceId).sort(),
  );
  expect(status.mailboxes.reduce((sum, { messages }) => sum + messages, 0)).toBe(MESSAGES);
  for (const { provenAt, certifiedAt, complete } of status.mailboxes) {
    expect(complete).toBe(true);
    for (const time of [provenAt, certifiedAt])
      expect(Date.parse(time ?? '')).toBeGreaterThanOrEqual(before);
  }
  expect(status.logBytes).toBeGreaterThan(0);
});

test('a suspended mailbox is not explained as a wrong token, and the other mailboxes are mirrored', async () => {
  const [first] = sandbox.mailboxes;
  const mailbox = sandbox.service.store.mailboxes.get(first?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  sandbox.service.standings.setStatus(mailbox, 'suspended');
  const sync = await mailkeep(['sync'], { cwd: place.folder });
  const said = `${sync.stdout}${sync.stderr}`;
  expect(sync.code, said).toBe(1);
  expect(said).toContain('status 403 (ERR_MAILBOX_SUSPENDED)');
  expect(said).toContain('may be suspended');
  expect(said).not.toMatch(/expired or revoked|does not let this token/);
  expect(said).toMatch(/office@example\.org: \d+ new/);
});
