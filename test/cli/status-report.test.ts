import { stripVTControlCharacters } from 'node:util';
import pc from 'picocolors';
import { expect, test } from 'vitest';
import { statusText } from '../../src/cli/commands/status.ts';
import { displayWidth } from '../../src/core/terminal-safe.ts';
import type { ArchiveStatus, FolderStatus } from '../../src/verify/archive-status.ts';

const NOW = Date.UTC(2026, 1, 3);
const LONG = 'INBOX.Projects.A name that runs on and on. 東京都庁の写真 and further still';

function folder(name: string, facts: Partial<FolderStatus> = {}): FolderStatus {
  const at = new Date(NOW - 5_000).toISOString();
  return {
    ...{ folder: name, specialUse: null, unwatched: false, messages: 1_234_567, unread: 0 },
    ...{ assumed: 0, held: 0, ended: 0, quarantined: 0, forgotten: 0, complete: true },
    ...{ provenAt: at, flagsAt: at, certifiedAt: null, listed: 1_234_567, unfinished: false },
    ...facts,
  };
}

const status: ArchiveStatus = {
  ...{ dataDir: '/data', commit: { number: 1, hash: '' }, messages: 3, bytes: 1, logBytes: 1 },
  ...{ catalogBytes: 1, pending: 0, unparsed: 0, budget: [], traffic: [], verification: null },
  attachments: { pending: 0, done: 0, failed: 0 },
  sum: { stored: 3, assumed: 0, quarantined: 0, held: 0, forgotten: 0 },
  listed: { messages: 3, folders: 2, unfinished: 0, unreadMailboxes: 0 },
  mailboxes: [
    {
      ...{ address: 'ada@example.org', host: 'mail.example.org', resourceId: 'AC1' },
      ...{ unwatched: false, messages: 3, unread: 0, ended: 0, quarantined: 0, held: 0 },
      ...{
        provenAt: null,
        complete: false,
        certifiedAt: null,
        quota: null,
        suspendedSince: null,
        leftBehindAt: null,
      },
      folders: [folder('INBOX'), folder(LONG, { quarantined: 2, unread: 7, complete: false })],
    },
  ],
};

function lines(interactive: boolean, columns: number): string[] {
  const colours = pc.createColors(true);
  const text = statusText(status, [], NOW, { interactive, columns, colours });
  return stripVTControlCharacters(text).split('\n');
}

test('names of folders are whole where nobody looks along', () => {
  const [inbox = '', long = ''] = lines(false, 40).slice(-2);
  expect(long).toBe(
    `  ${LONG} 1,234,567, 7 unread, 2 incomplete, not complete, compared 5.0 s ago`,
  );
  expect(inbox.indexOf('1,234,567')).toBe(displayWidth(long.slice(0, long.indexOf('1,234'))));
});

test('names of folders take what a terminal has room for, and are cut where it has less', () => {
  expect(lines(true, 200)).toEqual(lines(false, 0));
  for (const columns of [110, 120, 130]) {
    const [inbox = '', long = ''] = lines(true, columns).slice(-2);
    // A wide letter that is cut leaves a column more.
    expect(long).toMatch(/… {1,2}1,234,567/);
    expect(displayWidth(long)).toBeLessThanOrEqual(columns);
    expect(displayWidth(long)).toBeGreaterThan(columns - 3);
    expect(inbox).toMatch(/^ {2}INBOX +1,234,567, compared 5.0 s ago$/);
  }
  // A narrow terminal has the name on a line of its own.
  const [name = '', facts] = lines(true, 20).slice(-2);
  expect(name).toMatch(/^ {2}INBOX\.Projects.*…$/);
  expect(displayWidth(name)).toBeLessThanOrEqual(20);
  expect(facts).toMatch(/^ {4}1,234,567, 7 unread/);
});

test('mailboxes with one address are told apart, and each is stale for itself', () => {
  const [first] = status.mailboxes;
  if (first === undefined) throw new Error('the status has a mailbox');
  const second = { ...first, host: '127.0.0.1', resourceId: '127.0.0.1:143/ada' };
  const shown = { interactive: false, columns: 80, colours: pc.createColors(false) };
  const text = statusText({ ...status, mailboxes: [first, second] }, [second], NOW, shown);
  expect(text).toMatch(/^ada@example\.org \(AC1 at mail\.example\.org\) {2}3 places, not/m);
  expect(text).toMatch(/^ada@example\.org \(127\.0\.0\.1:143\/ada\) {2}3 places, STALE: not/m);
  expect(text).toMatch(/^Stale: ada@example\.org \(127\.0\.0\.1:143\/ada\)$/m);
});

test('a name without end is cut', () => {
  const [mailbox] = status.mailboxes;
  if (mailbox === undefined) throw new Error('the status has a mailbox');
  const endless = {
    ...mailbox,
    address: 'a'.repeat(100_000),
    folders: [folder('b'.repeat(100_000))],
  };
  const text = statusText({ ...status, mailboxes: [endless] }, [], NOW, {
    interactive: false,
    columns: 80,
    colours: pc.createColors(false),
  });
  expect(text).toContain('aaa…');
  expect(text).toContain('bbb…');
  expect(text.length).toBeLessThan(2_000);
});
