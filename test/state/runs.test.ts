import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openState, readState, type StateFile, stateFile } from '../../src/core/state.ts';
import type { RunFolder, RunRecord } from '../../src/core/state-runs.ts';
import { temporaryDir } from '../catalog/history.ts';

const DAY = 86_400_000;
const T0 = Date.UTC(2026, 10, 2, 9);

let room: ReturnType<typeof temporaryDir>;
let state: StateFile;
beforeEach(() => {
  room = temporaryDir();
  state = openState(room.dir);
});
afterEach(() => {
  state.close();
  room.remove();
});

function runAt(endedAt: number, more: Partial<RunRecord> = {}): RunRecord {
  return {
    kind: 'sync',
    account: 'main',
    startedAt: endedAt - 700,
    endedAt,
    outcome: 'done',
    mailboxes: 1,
    mailbox: 'ada@example.org',
    added: 2,
    ended: 0,
    flagsChanged: 1,
    relinked: 0,
    quarantined: 3,
    held: 2,
    bytes: 4_096,
    requests: 6,
    messages: null,
    commits: null,
    sum: { ...SUMS, folders: 1 },
    folders: [folder('INBOX')],
    failures: 0,
    troubles: [],
    ...more,
  };
}

const SUMS = {
  originTotal: 10,
  stored: 10,
  assumed: 0,
  quarantined: 0,
  held: 0,
  forgotten: 0,
  complete: true,
};

function folder(name: string, more: Partial<RunFolder> = {}): RunFolder {
  return { ...SUMS, mailbox: 'ada@example.org', folder: name, ...more };
}

const ends = (asked: Parameters<StateFile['runs']['list']>[0]) =>
  state.runs.list(asked).map(({ endedAt }) => endedAt - T0);

test('a run comes back as it was kept, also to a reader', () => {
  const kept = runAt(T0);
  state.runs.keep(kept);
  expect(state.runs.list({ limit: 5 })).toEqual([{ id: 1, ...kept }]);
  const reader = readState(room.dir);
  expect(reader?.runs.list({ limit: 5 })).toEqual([{ id: 1, ...kept }]);
  reader?.close();
});

test('runs are listed in pages, newest first, by kind and by time', () => {
  for (let n = 0; n < 6; n += 1)
    state.runs.keep(runAt(T0 + n, { kind: n % 2 === 0 ? 'sync' : 'hint' }));
  expect(ends({ limit: 2 })).toEqual([5, 4]);
  const [, last] = state.runs.list({ limit: 2 });
  expect(ends({ limit: 3, before: last?.id })).toEqual([3, 2, 1]);
  expect(ends({ limit: 9, since: T0 + 3 })).toEqual([5, 4, 3]);
  expect(ends({ limit: 9, kinds: ['hint'] })).toEqual([5, 3, 1]);
  expect(ends({ limit: 1, kinds: ['hint', 'sync'], before: last?.id })).toEqual([3]);
});

test('a new run removes those that ended more than 400 days before it', () => {
  state.runs.keep(runAt(T0));
  state.runs.keep(runAt(T0 + DAY));
  state.runs.keep(runAt(T0 + 400 * DAY));
  expect(ends({ limit: 9 })).toEqual([400 * DAY, DAY, 0]);
  state.runs.keep(runAt(T0 + 400 * DAY + 1));
  expect(ends({ limit: 9 })).toEqual([400 * DAY + 1, 400 * DAY, DAY]);
});

test('of more runs than are kept, the oldest go', () => {
  state.runs.keep(runAt(T0));
  state.runs.keep(runAt(T0 + 1));
  const raw = new Database(stateFile(room.dir));
  raw.exec('UPDATE runs SET id = 200001 WHERE id = 2');
  raw.close();
  state.runs.keep(runAt(T0 + 2));
  expect(ends({ limit: 9 })).toEqual([2, 1]);
});

test('a run of any size is kept within bounds, with the folders that do not add up first', () => {
  const path = 'x'.repeat(5_000);
  const plain = Array.from({ length: 500 }, (_, n) => folder(`${path}${n}`));
  const trouble = { mailbox: null, folder: path, code: 'api.x', text: path };
  state.runs.keep(
    runAt(T0, {
      folders: [...plain, folder('Odd', { stored: 9 }), folder('Late', { complete: false })],
      failures: 90,
      troubles: Array.from({ length: 90 }, () => trouble),
    }),
  );
  const [kept] = state.runs.list({ limit: 1 });
  expect(kept?.folders.map((one) => one.folder).slice(0, 2)).toEqual(['Odd', 'Late']);
  expect(kept?.folders).toHaveLength(10);
  expect(kept?.troubles).toHaveLength(5);
  expect(kept?.failures).toBe(90);
  expect(JSON.stringify(kept).length).toBeLessThan(10_000);
});

test('a state of an earlier version has no runs, and gets them with its next writer', () => {
  state.close();
  const raw = new Database(stateFile(room.dir));
  raw.exec('DROP TABLE runs');
  raw.close();
  const reader = readState(room.dir);
  expect(reader?.runs.list({ limit: 5 })).toEqual([]);
  reader?.close();
  state = openState(room.dir);
  state.runs.keep(runAt(T0));
  expect(ends({ limit: 5 })).toEqual([0]);
});

test('a run that cannot be read is left out', () => {
  for (let n = 0; n < 4; n += 1) state.runs.keep(runAt(T0 + n));
  const raw = new Database(stateFile(room.dir));
  raw.exec("UPDATE runs SET run = '{' WHERE id = 2; UPDATE runs SET run = '{}' WHERE id = 3");
  raw.close();
  expect(ends({ limit: 5 })).toEqual([3, 0]);
});
