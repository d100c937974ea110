import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openState, type StateFile } from '../../src/core/state.ts';
import { openDaemonLog } from '../../src/daemon/daemon-log.ts';
import { readReported } from '../../src/daemon/notifier.ts';
import { Notifying } from '../../src/daemon/notifying.ts';
import { copyStatuses, recordCopyMade, recordPlans } from '../../src/verify/copy-facts.ts';
import type { RunReport } from '../../src/verify/facts.ts';
import { recordVerification } from '../../src/verify/verification.ts';

let folder: string;
let state: StateFile;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-notifying-'));
  state = openState(folder);
});
afterEach(() => {
  state.close();
  rmSync(folder, { recursive: true, force: true });
});

const VERIFIED: RunReport = {
  kind: 'verify',
  startedAt: 1,
  endedAt: 2,
  outcome: 'done',
  failures: [],
  accounts: [],
  mailboxes: [],
  counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
};

function verification(at: number, found: number, covers: boolean): void {
  const findings = [{ what: 'checkpoint', id: null, text: 'the log ends early' }].slice(0, found);
  recordVerification(state, {
    ...{ at, endedAt: at, mode: 'full', checked: 1, of: 1, found, findings },
    covers: () => covers,
  });
}

type Options = ConstructorParameters<typeof Notifying>[1];

/** Notifies through a command, of an archive without quotas and copies. */
async function notifyingWith(more: Partial<Options>): Promise<Notifying> {
  const log = await openDaemonLog('silent', false);
  return new Notifying(
    { command: 'true', url: null },
    {
      ...{ memory: state, env: { PATH: process.env.PATH }, log },
      clock: { now: () => 1_000_000, after: () => () => {} },
      accounts: () => [],
      metrics: { notification: () => {} },
      quotas: () => [],
      copies: () => [],
      warnPercent: () => null,
      ...more,
    },
  );
}

/** Calls `changed` with each value that is remembered. */
function memoryWith(changed: (value: unknown) => void): Options['memory'] {
  return {
    get: state.get,
    set(scope, key, value) {
      changed(value);
      state.set(scope, key, value);
    },
  };
}

test('a clean run that did not cover the damage is never taken for its end', async () => {
  /** Whether damage was noted as over, at each change of what is remembered. */
  const over: boolean[] = [];
  const memory = memoryWith((value) => over.push(JSON.stringify(value).includes('"wellSince":1')));
  const notifying = await notifyingWith({ memory });
  verification(100, 1, false);
  for (const _ of [1, 2, 3]) {
    notifying.onRun({ ...VERIFIED, kind: 'sync' });
    verification(200, 0, false);
    notifying.onRun(VERIFIED);
  }
  expect(over.length).toBeGreaterThan(0);
  expect(over).not.toContain(true);
  verification(300, 0, true);
  notifying.onRun(VERIFIED);
  await notifying.close();
  expect(over).toContain(true);
});

test('of two mailboxes with one address, what the one has left does not end the warning of the other', async () => {
  const mailbox = (host: string, usage: number) => ({
    host,
    mailbox: 'AC1',
    name: `ada@example.org (${host})`,
    quota: {
      at: `2026-11-20T00:00:00.${usage}Z`,
      resources: [{ name: 'STORAGE', usage, limit: 1_000 }],
    },
  });
  let changes = 0;
  const memory = memoryWith(() => {
    changes += 1;
  });
  const quotas = () => [mailbox('one.example', 970), mailbox('two.example', 100)];
  const notifying = await notifyingWith({ memory, quotas, warnPercent: () => 95 });
  expect(changes).toBe(1);
  for (const _ of [1, 2, 3]) notifying.onRun({ ...VERIFIED, kind: 'sync' });
  await notifying.close();
  expect(changes).toBe(1);
  expect(Object.values(readReported(state.get('notify', 'command')).troubles)).toMatchObject([
    { subject: { kind: 'quota', name: 'ada@example.org (one.example)' }, wellSince: null },
  ]);
});

test('a copy is reported when it has become old, and when it fails; one that is dropped is well', async () => {
  const to = 's3://bucket/mail';
  let now = 1_000_000;
  const troubles = () =>
    Object.entries(readReported(state.get('notify', 'command')).troubles)
      .filter(([, { wellSince }]) => wellSince === null)
      .map(([key, { failure }]) => [key, failure.code]);
  recordPlans(state, new Map([[to, 1_000]]), now);
  recordCopyMade(state, to, { at: now, commit: 8, encrypted: true });
  const notifying = await notifyingWith({
    clock: { now: () => now, after: () => () => {} },
    copies: () => copyStatuses(state, 9, now),
  });
  now += 3_000;
  const report = { ...VERIFIED, kind: 'copy', copy: to };
  notifying.onRun(report);
  expect(troubles()).toEqual([]);
  now += 1;
  const failure = {
    account: null,
    mailbox: null,
    family: 'in-use',
    code: 'offsite-in-use',
  } as const;
  notifying.onRun({ ...report, outcome: 'failed', failures: [{ ...failure, message: 'Busy.' }] });
  expect(troubles()).toEqual([
    [`copy copy ${to}`, 'offsite-in-use'],
    [`copy stale ${to}`, 'offsite-stale'],
  ]);
  // Another copy that is well says nothing of this one.
  notifying.onRun({ ...report, copy: '/media/disk' });
  expect(troubles()).toHaveLength(2);
  recordCopyMade(state, to, { at: now, commit: 9, encrypted: true });
  notifying.onRun(report);
  expect(troubles()).toEqual([]);
  await notifying.close();
});
