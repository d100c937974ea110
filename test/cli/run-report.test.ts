import { expect, test } from 'vitest';
import { observationsFromRun } from '../../src/daemon/notifier.ts';
import { syncRunReport } from '../../src/daemon/runs.ts';
import type { SyncResult } from '../../src/sync/result.ts';

const nothing = {
  folders: 1,
  added: 2,
  ended: 1,
  flagsChanged: 0,
  relinked: 0,
  verified: 0,
  corrected: 0,
  quarantined: 5,
  held: 0,
  heldUntil: null,
  bytes: 10,
  compared: 0,
  comparison: 'all' as const,
};

function resultOf(
  mailboxes: SyncResult['mailboxes'],
  failures: SyncResult['failures'] = [],
): SyncResult {
  return {
    mailboxes,
    requests: 3,
    requestsByOperation: {},
    timings: { fetchMs: 0, indexMs: 0 },
    durationMs: 1,
    failures,
    certificates: [],
    excluded: [],
  };
}

const RUN = { kind: 'sync', accounts: ['main'], startedAt: 1, endedAt: 2 };

test('a pass that holds messages back is a failure of its mailbox, in a sentence', () => {
  const result = resultOf([
    { ...nothing, address: 'ada@example.org' },
    { ...nothing, address: 'bea@example.org', held: 40 },
  ]);
  const report = syncRunReport(result, RUN);
  expect(report.counts).toEqual({ added: 4, ended: 2, bytes: 20, requests: 3 });
  expect(observationsFromRun(report)).toEqual([
    {
      subject: { kind: 'mailbox', name: 'bea@example.org' },
      failure: { family: 'held', code: 'sync.held', message: expect.stringContaining('40') },
    },
    { subject: { kind: 'run', name: 'sync' }, failure: null },
    { subject: { kind: 'account', name: 'main' }, failure: null },
    { subject: { kind: 'mailbox', name: 'ada@example.org' }, failure: null },
  ]);
});

test('a mailbox that a refused token kept from being compared is not said to work', () => {
  const refused = {
    account: 'main',
    mailbox: null,
    folder: null,
    uid: null,
    family: 'auth' as const,
    code: 'auth.refused',
    facts: { operation: 'listFolders', host: 'example.org' },
  };
  const result = resultOf(
    [
      { ...nothing, address: 'ada@example.org', comparison: 'none' },
      { ...nothing, address: 'bea@example.org', comparison: 'some' },
      { ...nothing, address: 'cleo@example.org' },
    ],
    [refused],
  );
  const names = observationsFromRun(syncRunReport(result, RUN)).map(({ subject, failure }) => [
    subject.kind,
    subject.name,
    failure?.family ?? null,
  ]);
  expect(names).toEqual([
    ['account', 'main', 'auth'],
    ['run', 'sync', null],
    ['mailbox', 'cleo@example.org', null],
  ]);
});
