import { expect, test } from 'vitest';
import type { CopyStatus } from '../../src/verify/copy-facts.ts';
import { listIssues } from '../../src/verify/issues.ts';
import { showIssue } from '../../src/web/issues.ts';

const NOW = Date.UTC(2026, 10, 20, 12);

function copy(more: Partial<CopyStatus> = {}): CopyStatus {
  return {
    ...{ to: 's3://bucket/mail', encrypted: true, copiedAt: '2026-11-20T10:00:00.000Z' },
    ...{ commit: 7, behind: 3, everySeconds: 3_600, stale: false },
    ...{ failure: null, verified: null, damage: null },
    ...more,
  };
}

function shown(copies: readonly CopyStatus[]) {
  const status = { verification: null, mailboxes: [], messages: 0, pending: 0 };
  return listIssues(status, { copies, now: NOW }).map((issue) => showIssue(issue, '/data', NOW));
}

const failure = {
  ...{ since: '2026-11-20T11:00:00.000Z', at: '2026-11-20T11:30:00.000Z', tries: 4 },
  ...{ code: 'offsite-in-use', message: 'Another process is copying.' },
};

test('a copy needs a person when it fails, is old, or is damaged', () => {
  expect(shown([copy()])).toEqual([]);
  expect(shown([copy({ failure })])).toMatchObject([
    {
      level: 'warn',
      title: 'The copy at s3://bucket/mail fails',
      text: 'It was last made 2 h ago, and lacks 3 commits. Another process is copying.',
    },
  ]);
  const damage = { since: failure.at, findings: 2, message: 'Segment 1 is damaged.' };
  const never = { copiedAt: null, behind: null, stale: true };
  expect(shown([copy({ damage }), copy({ ...never, to: '/disk' })])).toMatchObject([
    {
      level: 'bad',
      title: 'The copy at s3://bucket/mail is damaged: 2 findings',
      text: 'Segment 1 is damaged.',
      command: 'verify --copy s3://bucket/mail',
    },
    { level: 'bad', title: 'The copy at /disk is old', text: 'It was never made.' },
  ]);
});
