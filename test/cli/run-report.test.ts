import { expect, test } from 'vitest';
import { syncRunReport } from '../../src/cli/compose/run-report.ts';
import { observationsOf } from '../../src/notify/observation.ts';
import type { SyncResult } from '../../src/sync/result.ts';

test('a pass that holds messages back is a failure of its mailbox, in a sentence', () => {
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
  const result: SyncResult = {
    mailboxes: [
      { ...nothing, address: 'ada@example.org' },
      { ...nothing, address: 'bea@example.org', held: 40 },
    ],
    requests: 3,
    requestsByOperation: {},
    timings: { fetchMs: 0, indexMs: 0 },
    durationMs: 1,
    failures: [],
    certificates: [],
    excluded: [],
  };
  const report = syncRunReport(result, {
    kind: 'sync',
    accounts: ['main'],
    startedAt: 1,
    endedAt: 2,
  });
  expect(report.counts).toEqual({ added: 4, ended: 2, bytes: 20, requests: 3 });
  expect(observationsOf(report)).toEqual([
    {
      subject: { kind: 'mailbox', name: 'bea@example.org' },
      failure: { family: 'held', code: 'sync.held', message: expect.stringContaining('40') },
    },
    { subject: { kind: 'run', name: 'sync' }, failure: null },
    { subject: { kind: 'account', name: 'main' }, failure: null },
    { subject: { kind: 'mailbox', name: 'ada@example.org' }, failure: null },
  ]);
});
