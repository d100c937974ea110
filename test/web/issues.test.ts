import { expect, test } from 'vitest';
import { addSums } from '../../src/core/types.ts';
import type { ArchiveStatus, FolderStatus } from '../../src/verify/archive-status.ts';
import type { CopyStatus } from '../../src/verify/copy-facts.ts';
import { listIssues } from '../../src/verify/issues.ts';
import { showIssue } from '../../src/web/issues.ts';

const NOW = Date.UTC(2026, 10, 28, 12);
const AT = new Date(NOW - 60_000).toISOString();

function folder(more: Partial<FolderStatus>): FolderStatus {
  return {
    ...{ folder: 'INBOX', specialUse: null, unwatched: false, messages: 9, unread: 0, assumed: 0 },
    ...{ held: 0, ended: 0, quarantined: 0, forgotten: 0, provenAt: AT, complete: true },
    ...{ flagsAt: AT, certifiedAt: AT, listed: 9, unfinished: false },
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
    ...{
      logBytes: 0,
      catalogBytes: 0,
      pending: 0,
      unparsed: 0,
      budget: [],
      traffic: [],
      verification,
    },
    attachments: { pending: 0, done: 0, failed: 0 },
    sum: addSums([]),
    listed: { messages: 0, folders: 0, unfinished: 0, unreadMailboxes: 0 },
    mailboxes: [
      {
        ...{ address: 'ada@example.org', host: 'mail.example.org', resourceId: 'm1' },
        ...{ unwatched: false, messages: 9, unread: 0, ended: 0, quarantined: 0, held },
        ...{
          provenAt: AT,
          complete: false,
          certifiedAt: AT,
          quota: null,
          suspendedSince: null,
          leftBehindAt: null,
        },
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
    { title: 'ada@example.org: 8 deletions awaiting confirmation', command: 'list --held' },
  ]);
  const other = folder({ folder: 'INBOX.Sent', complete: false });
  const both = shown(status([folder({ held: 8, complete: false }), other]), around);
  expect(both).toMatchObject([
    { title: 'ada@example.org: 8 deletions awaiting confirmation' },
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
  expect(index?.text).toMatch(/^The index differs from the log\. No mail is lost/);
  const bytes = { what: 'log', text: '/srv/mail archive/log/1.log, bytes 0 to 9 (bytes)' };
  const [archive] = shown(status([folder({})], damaged([bytes, row])), around);
  expect(archive).toMatchObject({
    ...{ level: 'bad', title: 'The archive is damaged: 2 findings', command: 'verify --repair' },
    text: 'Part of the log is not as it was written. The index differs from the log.',
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

function copy(more: Partial<CopyStatus> = {}): CopyStatus {
  return {
    ...{ to: 's3://bucket/mail', encrypted: true, copiedAt: '2026-11-20T10:00:00.000Z' },
    ...{ commit: 7, behind: 3, everySeconds: 3_600, stale: false },
    ...{ failure: null, verified: null, damage: null },
    ...more,
  };
}

function shownOfCopies(copies: readonly CopyStatus[]) {
  const now = Date.UTC(2026, 10, 20, 12);
  const empty = { verification: null, mailboxes: [], messages: 0, pending: 0 };
  return listIssues(empty, { copies, now }).map((issue) => showIssue(issue, '/data', now));
}

const failure = {
  ...{ since: '2026-11-20T11:00:00.000Z', at: '2026-11-20T11:30:00.000Z', tries: 4 },
  ...{ code: 'offsite-in-use', message: 'Another process is copying.' },
};

test('a copy needs a person when it fails, is old, or is damaged', () => {
  expect(shownOfCopies([copy()])).toEqual([]);
  expect(shownOfCopies([copy({ failure })])).toMatchObject([
    {
      level: 'warn',
      title: 'The copy at s3://bucket/mail fails',
      text: 'It was last made 2 h ago, and lacks 3 commits. Another process is copying.',
    },
  ]);
  const damage = { since: failure.at, findings: 2, message: 'Segment 1 is damaged.' };
  const never = { copiedAt: null, behind: null, stale: true };
  expect(shownOfCopies([copy({ damage }), copy({ ...never, to: '/disk' })])).toMatchObject([
    {
      level: 'bad',
      title: 'The copy at s3://bucket/mail is damaged: 2 findings',
      text: 'Segment 1 is damaged.',
      command: 'verify --copy s3://bucket/mail',
    },
    { level: 'bad', title: 'The copy at /disk is old', text: 'It was never made.' },
  ]);
});
