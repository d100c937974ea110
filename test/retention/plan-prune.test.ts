import { describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { FolderIdentities } from '../../src/verify/find-purged.ts';
import {
  type Candidate,
  CLOCK_AHEAD_MS,
  clockProblem,
  DAY_MS,
  type DeletedPlace,
  type Policy,
  PrunePlanner,
} from '../../src/verify/prune.ts';

const NOW = Date.UTC(2026, 6, 1);
const KEEP_ALL: Policy = { endedAfterDays: null, draftsAfterDays: null, rules: [], keepAtLeast: 0 };
const lettingGo = (endedAfterDays: number): Policy => ({ ...KEEP_ALL, endedAfterDays });

function place(daysAgo: number, changes: Partial<DeletedPlace> = {}): DeletedPlace {
  return {
    folderId: 1,
    mailbox: 'AC1',
    address: 'ada@example.org',
    folder: 'INBOX',
    isDrafts: false,
    endedAt: NOW - daysAgo * DAY_MS,
    confirmedAt: NOW,
    isReachable: true,
    isNameable: true,
    ...changes,
  };
}

const decide = (policy: Policy, candidate: Partial<Candidate>) =>
  new PrunePlanner(policy, NOW).decide({ onHold: false, places: [place(400)], ...candidate });

describe('a message goes', () => {
  test('when every place of it ended long enough ago', () => {
    expect(decide(lettingGo(30), {})).toEqual({ prune: true, reason: 'ended' });
    expect(decide(lettingGo(30), { places: [place(30)] }).prune).toBe(true);
    expect(decide(lettingGo(30), { places: [place(400), place(29.99)] })).toEqual({
      prune: false,
      reason: 'too-recent',
    });
  });

  test('never without a configuration that lets go of it', () => {
    expect(decide(KEEP_ALL, {})).toEqual({ prune: false, reason: 'no-rule' });
  });

  test('by the first rule that fits, of mailbox and folder; null keeps', () => {
    const policy: Policy = {
      ...lettingGo(100),
      rules: [
        { mailbox: 'ada@*', folder: 'Trash*', endedAfterDays: 7 },
        { mailbox: 'AC1', folder: 'Contracts', endedAfterDays: null },
      ],
    };
    const inFolder = (folder: string, days: number) =>
      decide(policy, { places: [place(days, { folder })] });
    expect(inFolder('Trash.old', 8)).toEqual({ prune: true, reason: 'rule' });
    expect(inFolder('Contracts', 9000)).toEqual({ prune: false, reason: 'no-rule' });
    expect(inFolder('INBOX', 99)).toEqual({ prune: false, reason: 'too-recent' });
    const both = [place(9000, { folder: 'Trash' }), place(9000, { folder: 'Contracts' })];
    expect(decide(policy, { places: both })).toEqual({ prune: false, reason: 'no-rule' });
  });

  test('as a version of a draft only when it never was anything else', () => {
    const policy: Policy = { ...KEEP_ALL, draftsAfterDays: 14 };
    const draft = place(15, { isDrafts: true });
    expect(decide(policy, { places: [draft] })).toEqual({ prune: true, reason: 'draft' });
    expect(decide(policy, { places: [draft, place(15)] }).prune).toBe(false);
  });

  test('never on hold', () => {
    expect(decide(lettingGo(1), { onHold: true })).toEqual({ prune: false, reason: 'hold' });
  });

  test('only when a check at least seven days after the end confirmed it', () => {
    const confirmed = (days: number | null) =>
      decide(lettingGo(1), {
        places: [
          place(300, { confirmedAt: days === null ? null : NOW + (days - 300) * DAY_MS }),
          place(300),
        ],
      });
    expect(confirmed(null)).toEqual({ prune: false, reason: 'not-confirmed' });
    expect(confirmed(6.99)).toEqual({ prune: false, reason: 'not-confirmed' });
    expect(confirmed(7).prune).toBe(true);
  });

  test('never in a mailbox that cannot be reached, nor where its folder cannot be named', () => {
    expect(decide(lettingGo(1), { places: [place(300, { isReachable: false })] })).toEqual({
      prune: false,
      reason: 'unreachable',
    });
    expect(decide(lettingGo(1), { places: [place(300, { isNameable: false })] })).toEqual({
      prune: false,
      reason: 'folder-reused',
    });
  });

  test('but for the newest of each folder', () => {
    const planner = new PrunePlanner({ ...lettingGo(1), keepAtLeast: 2 }, NOW);
    const at = (...folders: number[]) =>
      planner.decide({
        onHold: false,
        places: folders.map((folderId) => place(300, { folderId })),
      });
    expect([at(1), at(1), at(1), at(1, 2), at(2), at(2)].map(({ prune }) => prune)).toEqual([
      false,
      false,
      true,
      false,
      false,
      true,
    ]);
  });
});

test('a clock is believed only near the last commit, and the result shows which way it is off', () => {
  expect(clockProblem(NOW, NOW)).toBeUndefined();
  expect(clockProblem(NOW - 60_000, NOW)).toBeUndefined();
  expect(clockProblem(NOW - 10 * 60_000, NOW)).toBe('behind');
  expect(clockProblem(NOW + CLOCK_AHEAD_MS, NOW)).toBeUndefined();
  expect(clockProblem(NOW + CLOCK_AHEAD_MS + 1, NOW)).toBe('ahead');
});

const MAILBOX = { host: 'mail.example.org', mailbox: 'm1' };
const renamed = (folder: string, to: string): Fact => ({
  fact: 'folder-renamed',
  ...MAILBOX,
  folder,
  to,
});
const at = (folder: string) => ({ ...MAILBOX, folder, generation: 1, uid: 1 });

test('two readings agree on a folder whatever else they were asked about before', () => {
  const [asked, other] = [new FolderIdentities(), new FolderIdentities()];
  for (const path of ['INBOX', 'Work', 'Old']) other.keyOf(at(path));
  expect(asked.keyOf(at('Work'))).toBe(other.keyOf(at('Work')));
  for (const fact of [renamed('Work', 'Old'), renamed('INBOX', 'Work')]) {
    asked.note(fact);
    other.note(fact);
  }
  expect(asked.keyOf(at('Work'))).toBe(other.keyOf(at('Work')));
  expect(asked.keyOf(at('INBOX'))).toBe(other.keyOf(at('INBOX')));
});

test('a folder keeps its key through renames, and another one of its name has another', () => {
  const folders = new FolderIdentities();
  const first = folders.keyOf(at('Work'));
  folders.note(renamed('Work', 'Old'));
  expect(folders.keyOf(at('Old'))).toBe(first);
  const second = folders.keyOf(at('Work'));
  expect(second).not.toBe(first);
  folders.note(renamed('Work', 'Done'));
  folders.note(renamed('Old', 'Work'));
  expect([folders.keyOf(at('Work')), folders.keyOf(at('Done'))]).toEqual([first, second]);
  const third = folders.keyOf(at('Old'));
  expect([first, second]).not.toContain(third);
  expect(folders.keyOf({ ...at('Work'), uid: 2 })).not.toBe(first);
});
