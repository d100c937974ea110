import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { UNKNOWN_COPY } from '../../src/core/state-runs.ts';
import {
  checkDueAt,
  copyDueAt,
  copyTimes,
  needsLockExtension,
  retryAfterMs,
} from '../../src/daemon/background-tasks.ts';
import {
  copyStatuses,
  recallCopy,
  recordCopyCheck,
  recordCopyFailure,
  recordCopyMade,
  recordPlans,
} from '../../src/verify/copy-facts.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.UTC(2026, 10, 20, 10, 0, 30);

test('a copy is due an interval after the last one, and at once before the first', () => {
  const times = copyTimes({ everyMs: 6 * HOUR }, 'UTC', NOW);
  const made = (at: number) => ({ ...UNKNOWN_COPY, made: { at, commit: 1, encrypted: true } });
  expect(times.longestMs).toBe(6 * HOUR);
  expect(copyDueAt(times, UNKNOWN_COPY, NOW)).toBe(NOW);
  expect(copyDueAt(times, made(NOW - HOUR), NOW)).toBe(NOW + 5 * HOUR);
  // The clock was set back by years since.
  expect(copyDueAt(times, made(NOW + 2_000 * DAY), NOW)).toBe(NOW + 6 * HOUR);
});

test('a schedule is heeded, made up for once, and its longest gap is its interval', () => {
  // Weekdays at three: the longest gap is over the weekend.
  const times = copyTimes({ cron: '0 3 * * 1-5' }, 'UTC', NOW);
  expect(times.longestMs).toBe(3 * DAY);
  const plan = { everyMs: times.longestMs, since: NOW - 2 * HOUR, currentAt: 0 };
  const next = Date.UTC(2026, 10, 23, 3);
  expect(copyDueAt(times, { ...UNKNOWN_COPY, plan }, NOW)).toBe(next);
  const made = { at: NOW - 10 * DAY, commit: 1, encrypted: true };
  expect(copyDueAt(times, { ...UNKNOWN_COPY, plan, made }, NOW)).toBeLessThan(NOW);
  expect(copyTimes({ cron: '0 3 29 2 *' }, 'UTC', NOW).next(NOW)).toBe(Date.UTC(2028, 1, 29, 3));
});

test('tries are further and further apart, at most an hour', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 1_000].map((tries) => retryAfterMs(tries) / 60_000)).toEqual([
    1, 2, 4, 8, 16, 32, 60, 60, 60,
  ]);
  const times = copyTimes({ everyMs: 6 * HOUR }, 'UTC', NOW);
  const failed = { since: NOW - HOUR, at: NOW - 60_000, tries: 3, code: 'c', text: 't' };
  expect(copyDueAt(times, { ...UNKNOWN_COPY, failed }, NOW)).toBe(NOW + 3 * 60_000);
});

test('everything is read back an interval after it was, and not before there is a copy', () => {
  const times = copyTimes({ everyMs: 30 * DAY }, 'UTC', NOW);
  const plan = { everyMs: HOUR, since: NOW - DAY, currentAt: 0 };
  const made = { at: NOW, commit: 1, encrypted: true };
  const checked = { at: NOW, checked: 1, of: 2, unit: 'segment', found: 0 } as const;
  expect(checkDueAt(times, { ...UNKNOWN_COPY, plan }, NOW)).toBeNull();
  expect(checkDueAt(null, { ...UNKNOWN_COPY, plan, made }, NOW)).toBeNull();
  expect(checkDueAt(times, { ...UNKNOWN_COPY, plan, made }, NOW)).toBe(NOW + 29 * DAY);
  const known = { ...UNKNOWN_COPY, plan, made, checked: { ...checked, fullAt: NOW - 31 * DAY } };
  expect(checkDueAt(times, known, NOW)).toBe(NOW - DAY);
});

test('what is known of copies is kept: failures are counted, damage lasts until all was read', () => {
  const state = openState(mkdtempSync(path.join(tmpdir(), 'mailkeep-copies-')));
  const to = '/media/disk';
  expect(recordPlans(state, new Map([[to, HOUR]]), NOW)).toEqual([]);
  for (const at of [NOW, NOW + 1]) recordCopyFailure(state, to, { at, code: 'c', text: 't' });
  expect(recallCopy(state, to).failed).toMatchObject({ since: NOW, at: NOW + 1, tries: 2 });
  recordCopyMade(state, to, { at: NOW + 2, commit: 5, encrypted: false });
  expect(copyStatuses(state, 7, NOW)).toMatchObject([{ to, behind: 2, failure: null }]);
  const read = (checked: number, ...findings: { name: string; message: string }[]) =>
    recordCopyCheck(state, to, { at: NOW + 3, checked, of: 9, unit: 'segment' }, findings);
  read(2, { name: 'data/3', message: 'Segment 3 is damaged.' });
  read(2);
  expect(recallCopy(state, to)).toMatchObject({
    checked: { found: 0, fullAt: null },
    damage: { since: NOW + 3, found: 1, text: 'Segment 3 is damaged.' },
  });
  read(9);
  expect(recallCopy(state, to)).toMatchObject({ checked: { fullAt: NOW + 3 }, damage: null });
  // The configuration has it no longer: what is known of it stays.
  expect(recordPlans(state, new Map([['/other', HOUR]]), NOW + 4)).toEqual([to]);
  expect(copyStatuses(state, 7, NOW)).toMatchObject([
    { to, everySeconds: null },
    { to: '/other', copiedAt: null },
  ]);
  // One that was never made is forgotten.
  expect(recordPlans(state, new Map(), NOW + 5)).toEqual(['/other']);
  expect(copyStatuses(state, 7, NOW).map((copy) => copy.to)).toEqual([to]);
  state.close();
});

test('locks are extended though nothing is new, once a quarter of their time has passed', () => {
  expect(needsLockExtension(null, 0, NOW)).toBe(false);
  expect(needsLockExtension(4, NOW - DAY + 1, NOW)).toBe(false);
  expect(needsLockExtension(4, NOW - DAY, NOW)).toBe(true);
  // The clock was set back since.
  expect(needsLockExtension(4, NOW + 9 * DAY, NOW)).toBe(false);
});
