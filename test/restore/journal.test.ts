import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { scrubState } from '../../src/core/state.ts';
import { openJournal, RestoreJournal } from '../../src/transfer/restore-journal.ts';

const INBOX = { path: 'Restored/INBOX', uidValidity: '17' };

function file(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-journal-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return path.join(folder, 'journal.sqlite');
}

function opened(name: string): RestoreJournal {
  const journal = new RestoreJournal(new Database(name));
  onTestFinished(() => journal.close());
  return journal;
}

const BEGUN = {
  startedAt: 1,
  layout: { kind: 'below', levels: ['Restored', '2026-03-01'], byAddress: false },
  asOf: null,
} as const;

test('another process finds what was settled, and what was begun without an answer', () => {
  const name = file();
  const writing = opened(name);
  const plan = writing.begin('imaps://a@b:993', 'all', BEGUN);
  const journal = writing.entriesOf(plan);
  const first = journal.begin(INBOX, 'a', 5);
  const second = journal.begin(INBOX, 'a', 6);
  const third = journal.begin(INBOX, 'b', 7);
  const fourth = journal.begin(INBOX, 'c', 8);
  journal.settle(first, 5);
  journal.settle(third, null);
  journal.forget(fourth);
  const other = opened(name);
  const again = other.unfinished('imaps://a@b:993', 'all');
  expect(again).toEqual({ ...BEGUN, number: plan.number, refused: '' });
  expect(other.entriesOf(plan).entries(INBOX)).toEqual([
    { number: first, id: 'a', startedAt: 5, uid: 5, isSettled: true },
    { number: second, id: 'a', startedAt: 6, uid: null, isSettled: false },
    { number: third, id: 'b', startedAt: 7, uid: null, isSettled: true },
  ]);
});

test('another plan, folder or UIDVALIDITY has entries of its own, which no other plan changes', () => {
  const journal = opened(file());
  const plan = journal.entriesOf({ number: 1 });
  const number = plan.begin(INBOX, 'a', 5);
  const other = journal.entriesOf({ number: 2 });
  other.settle(number, 9);
  other.forget(number);
  expect(other.entries(INBOX)).toEqual([]);
  expect(plan.entries({ ...INBOX, path: 'Sent' })).toEqual([]);
  expect(plan.entries({ ...INBOX, uidValidity: '18' })).toEqual([]);
  expect(plan.lost({ ...INBOX, uidValidity: '18' })).toBe(1);
  expect(plan.lost(INBOX)).toBe(0);
  expect(plan.entries(INBOX)).toEqual([
    { number, id: 'a', startedAt: 5, uid: null, isSettled: false },
  ]);
});

test('a finished plan is not continued, nor one of another selection or target', () => {
  const journal = opened(file());
  const plan = journal.begin('imaps://a@b:993', 'all', BEGUN);
  journal.refuse(plan, './');
  expect(journal.unfinished('imaps://a@b:993', 'some')).toBeUndefined();
  expect(journal.unfinished('imaps://a@c:993', 'all')).toBeUndefined();
  expect(journal.unfinished('imaps://a@b:993', 'all')?.refused).toBe('./');
  expect(journal.rateOf('imaps://a@b:993')).toBeNull();
  journal.measured(plan, { messagesPerSecond: 50, bytesPerSecond: 1000 });
  expect(journal.rateOf('imaps://a@b:993')).toEqual({
    messagesPerSecond: 50,
    bytesPerSecond: 1000,
  });
  journal.finish(plan, 9);
  expect(journal.unfinished('imaps://a@b:993', 'all')).toBeUndefined();
});

test('a database that is only read, and has no journal, has nothing unfinished', () => {
  const name = file();
  new Database(name).exec('CREATE TABLE other (x)').close();
  const journal = new RestoreJournal(new Database(name, { readonly: true }));
  expect(journal.unfinished('imaps://a@b:993', 'all')).toBeUndefined();
  expect(journal.rateOf('imaps://a@b:993')).toBeNull();
  journal.close();
});

test('what was appended is dropped with the end of its plan, and when messages are forgotten', () => {
  const dataDir = path.dirname(file());
  const journal = openJournal({ dataDir, file: null });
  onTestFinished(() => journal.close());
  const plans = [1, 2].map((number) => journal.begin('imaps://a@b:993', `${number}`, BEGUN));
  for (const plan of plans) journal.entriesOf(plan).begin(INBOX, 'a', 5);
  const kept = () => plans.map((plan) => journal.entriesOf(plan).entries(INBOX).length);
  const [first] = plans;
  if (first !== undefined) journal.finish(first, 9);
  expect(kept()).toEqual([0, 1]);
  scrubState(dataDir, []);
  expect(kept()).toEqual([0, 0]);
  expect(journal.unfinished('imaps://a@b:993', '2')).toBeDefined();
});
