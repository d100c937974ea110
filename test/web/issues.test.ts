import { expect, test } from 'vitest';
import { addSums } from '../../src/core/types.ts';
import type { ArchiveStatus, FolderStatus } from '../../src/verify/archive-status.ts';
import { listIssues } from '../../src/verify/issues.ts';
import { showIssue } from '../../src/web/issues.ts';

const NOW = Date.UTC(2026, 10, 28, 12);
const AT = new Date(NOW - 60_000).toISOString();

function folder(more: Partial<FolderStatus>): FolderStatus {
  return {
    ...{ folder: 'INBOX', specialUse: null, unwatched: false, messages: 9, unread: 0, assumed: 0 },
    ...{ held: 0, ended: 0, quarantined: 0, forgotten: 0, provenAt: AT, complete: true },
    ...{ flagsAt: AT, certifiedAt: AT },
    ...more,
  };
}

function status(
  folders: FolderStatus[],
  verification: ArchiveStatus['verification'] = null,
): ArchiveStatus {
  const held = folders.reduce((sum, one) => sum + one.held, 0);
  return {
    ...{ dataDir: '/srv/mail archive', commit: { number: 3, hash: 'ab' }, messages: 0, bytes: 0 },
    ...{ logBytes: 0, catalogBytes: 0, pending: 0, unparsed: 0, budget: [], verification },
    attachments: { pending: 0, done: 0, failed: 0 },
    sum: addSums([]),
    mailboxes: [
      {
        ...{ address: 'ada@example.org', host: 'mail.example.org', resourceId: 'm1' },
        ...{ unwatched: false, messages: 9, unread: 0, ended: 0, quarantined: 0, held },
        ...{ provenAt: AT, complete: false, certifiedAt: AT, quota: null, suspendedSince: null },
        folders,
      },
    ],
  };
}

function shown(archive: ArchiveStatus, inputs: Parameters<typeof listIssues>[1]) {
  return listIssues(archive, inputs).map((issue) => showIssue(issue, archive.dataDir, NOW));
}

const around = { behind: null, whole: true, copies: [], runs: [], now: NOW };

test('pending deletions are no mail that the archive lacks', () => {
  const pending = shown(status([folder({ held: 8, complete: false })]), around);
  expect(pending).toMatchObject([
    { title: 'ada@example.org: 8 pending deletions', command: 'list --held' },
  ]);
  const other = folder({ folder: 'INBOX.Sent', complete: false });
  const both = shown(status([folder({ held: 8, complete: false }), other]), around);
  expect(both).toMatchObject([
    { title: 'ada@example.org: 8 pending deletions' },
    { title: 'ada@example.org: 1 folder not complete', command: 'sync' },
  ]);
  expect(both[1]?.text).toContain('every message at the service: INBOX.Sent.');
});

function damaged(findings: readonly { what: string; text: string }[]) {
  return {
    ...{ at: AT, mode: 'full' as const, checked: 9, of: 9, fullAt: AT, drill: null, ok: false },
    ...{ found: findings.length, damagedSince: AT },
    findings: findings.map((finding) => ({ id: null, ...finding })),
  };
}

test('damage is one sentence, without the folder of the archive; an index offers a rebuild', () => {
  const row = { what: 'catalog', text: 'the index has a row too many in records' };
  const [index] = shown(status([folder({})], damaged([row, row, row])), around);
  expect(index).toMatchObject({ title: 'The index is damaged: 3 findings', command: 'rebuild' });
  expect(index?.text).toMatch(/^The index has a row too many in records\. No mail is lost/);
  const bytes = { what: 'log', text: '/srv/mail archive/log/1.log, bytes 0 to 9 (bytes)' };
  const [archive] = shown(status([folder({})], damaged([bytes, row])), around);
  expect(archive).toMatchObject({
    ...{ level: 'bad', title: 'The archive is damaged: 2 findings', command: 'verify --repair' },
    text: 'log/1.log, bytes 0 to 9 (bytes); the index has a row too many in records.',
  });
});

test('a run that failed for an unknown reason shows no internal code', () => {
  const run = {
    ...{ id: 1, kind: 'sync' as const, account: 'main', mailbox: null, mailboxes: 1, added: 0 },
    ...{ ended: 0, flagsChanged: 0, requests: 1, messages: null, sum: null, folders: [] },
    ...{ startedAt: NOW - 1_000, endedAt: NOW, outcome: 'failed' as const, failures: 1 },
    troubles: [{ mailbox: null, folder: null, code: 'api.broken', text: null }],
  };
  const [issue] = shown(status([folder({})]), { ...around, runs: [run as never] });
  expect(issue).toMatchObject({ text: 'The reason is in the log of the daemon.' });
});
