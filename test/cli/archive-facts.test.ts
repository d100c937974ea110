import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { openState, readState } from '../../src/core/state.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { archiveFacts } from '../../src/verify/archive-status.ts';
import { recordVerification } from '../../src/verify/verification.ts';
import { mailkeep, workplace } from './child.ts';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 30 } });
});
afterAll(() => sandbox.close());

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
  const facts = archiveFacts({ catalog, dataDir: data }, state);
  state?.close();
  catalog.close();
  expect(facts).toMatchObject({
    messages: 30,
    pending: 0,
    verification: { at: before, ok: false, fullAt: null, damage: { since: before, found: 2 } },
  });
  expect(facts.mailboxes.map(({ resourceId }) => resourceId).sort()).toEqual(
    sandbox.mailboxes.map(({ resourceId }) => resourceId).sort(),
  );
  expect(facts.mailboxes.reduce((sum, { messages }) => sum + messages, 0)).toBe(30);
  for (const { provenAt, certifiedAt, complete } of facts.mailboxes) {
    expect(complete).toBe(true);
    expect(provenAt).toBeGreaterThanOrEqual(before);
    expect(certifiedAt).toBeGreaterThanOrEqual(before);
  }
  expect(facts.logBytes).toBeGreaterThan(0);
});
