import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { openState, readState } from '../../src/core/state.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { recordVerification } from '../../src/verify/verification.ts';
import { mailkeep, workplace } from './child.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 30 } });
});
afterAll(() => sandbox.close());

const iso = (at: number): string => new Date(at).toISOString();

test('monitoring sees what a sync left: mailboxes, sizes, certificates, the last verification', async () => {
  const before = Date.now();
  const { config, data } = workplace(sandbox);
  expect((await mailkeep(['sync', '--config', config])).code).toBe(0);
  const writable = openState(data);
  recordVerification(writable, {
    ...{ at: before, endedAt: before, mode: 'quick', checked: 0, of: 30, found: 2, findings: [] },
    covers: () => false,
  });
  writable.close();

  const catalog = openCatalogReader(data);
  const state = readState(data);
  const status = archiveStatus({ catalog, dataDir: data }, state);
  state?.close();
  catalog.close();
  expect(status).toMatchObject({
    messages: 30,
    pending: 0,
    verification: { at: iso(before), ok: false, fullAt: null, damagedSince: iso(before), found: 2 },
  });
  expect(status.mailboxes.map(({ resourceId }) => resourceId).sort()).toEqual(
    sandbox.mailboxes.map(({ resourceId }) => resourceId).sort(),
  );
  expect(status.mailboxes.reduce((sum, { messages }) => sum + messages, 0)).toBe(30);
  for (const { provenAt, certifiedAt, complete } of status.mailboxes) {
    expect(complete).toBe(true);
    for (const time of [provenAt, certifiedAt])
      expect(Date.parse(time ?? '')).toBeGreaterThanOrEqual(before);
  }
  expect(status.logBytes).toBeGreaterThan(0);
});
