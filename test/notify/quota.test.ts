import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { mailboxKey, openState } from '../../src/core/state.ts';
import {
  dueNotice,
  formatNotice,
  hasNoFailures,
  NO_REPORTS,
  observe,
  type ReportedState,
  readReported,
  recordAttempt,
  subjectKey,
} from '../../src/daemon/notifier.ts';
import { quotaObservations, storedQuotas } from '../../src/daemon/notifying.ts';
import { isExcludedMailbox } from '../../src/sync/usage.ts';
import type { Quota } from '../../src/verify/archive-status.ts';
import { highestUsage } from '../../src/verify/issues.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const ADDRESS = 'ada@example.org';

function quota(storage: number, messages: number | null = null): Quota {
  return {
    at: '2026-11-20T00:00:00.000Z',
    resources: [
      { name: 'STORAGE', usage: storage, limit: 1_000 },
      { name: 'MESSAGE', usage: messages ?? 0, limit: messages === null ? null : 100 },
    ],
  };
}

const found = (percent: number, warnPercent: number | null = 95) =>
  quotaObservations(
    [{ host: 'mail.example.com', mailbox: 'AC1', name: ADDRESS, quota: quota(percent * 10) }],
    warnPercent,
  );

test('a mailbox is nearly full from the threshold on, and not any more two points below it', () => {
  const states = [94.9, 95, 100, 120, 94, 93, 92.9, 0].map((percent) => {
    const [observation] = found(percent);
    return observation === undefined ? 'as before' : observation.failure !== null;
  });
  expect(states).toEqual(['as before', true, true, true, 'as before', 'as before', false, false]);
  expect(found(95)[0]?.failure).toMatchObject({
    code: 'mailbox-nearly-full',
    message: 'Mailbox ada@example.org is 95% full (storage).',
  });
  expect(found(100, null)).toMatchObject([{ failure: null }]);
  expect(found(50, 50)[0]?.failure?.message).toContain('50% full');
});

test('the quota that is nearest to its limit counts; one without a limit does not', () => {
  expect(highestUsage(quota(100, 97).resources)).toEqual({ name: 'MESSAGE', share: 0.97 });
  expect(highestUsage(quota(100).resources)).toEqual({ name: 'STORAGE', share: 0.1 });
  expect(highestUsage([{ name: 'STORAGE', usage: 5, limit: 0 }])).toBeNull();
});

test('mailboxes with one address are distinguished, and named differently only where necessary', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-quota-'));
  const state = openState(folder);
  onTestFinished(() => {
    state.close();
    rmSync(folder, { recursive: true });
  });
  const known = [
    ['one.example', 'AC1', ADDRESS, 970],
    ['two.example', 'AC1', ADDRESS, 100],
    ['two.example', 'AC2', 'bea@example.org', 970],
    ['two.example', 'AC3', 'bea@example.org', 100],
    ['two.example', 'AC4', 'cem@example.org', 970],
    ['one.example', 'AC4', 'cem@example.org', 970],
    ['two.example', 'AC5', 'dia@example.org', 970],
  ] as const;
  const mailboxes = known.map(([host, mailbox, address], id) => ({ id, host, mailbox, address }));
  for (const [host, mailbox, , storage] of known) {
    const { resources } = quota(storage);
    state.set('quota', mailboxKey({ host, mailbox }), { at: 1, resources });
  }
  // Left out by the configuration: it is not reported, and it makes no other ambiguous.
  const unwatched = { host: 'one.example', mailbox: 'AC4' };
  state.set('unwatched', JSON.stringify(Object.values(unwatched)), true);
  expect(isExcludedMailbox(state, unwatched)).toBe(true);
  const remembered = storedQuotas({ folders: { mailboxes: () => mailboxes } }, state);
  expect(remembered.map(({ name }) => name)).toEqual([
    `${ADDRESS} (one.example)`,
    `${ADDRESS} (two.example)`,
    'bea@example.org (AC2)',
    'bea@example.org (AC3)',
    'cem@example.org',
    'dia@example.org',
  ]);
  const observed = quotaObservations(remembered, 95);
  expect(new Set(observed.map(({ subject }) => subjectKey(subject))).size).toBe(6);
  const reported = observe(NO_REPORTS, observed, 1);
  const failing = Object.values(reported.troubles).map(({ failure }) => failure.message);
  expect(failing).toEqual([
    `Mailbox ${ADDRESS} (one.example) is 97% full (storage).`,
    'Mailbox bea@example.org (AC2) is 97% full (storage).',
    'Mailbox cem@example.org is 97% full (storage).',
    'Mailbox dia@example.org is 97% full (storage).',
  ]);
  // As over a restart: what was said of one does not end the warning of the other.
  const again = observe(readReported(JSON.parse(JSON.stringify(reported))), observed, 2);
  expect(Object.values(again.troubles).map(({ wellSince }) => wellSince)).toEqual(
    Array.from({ length: 4 }, () => null),
  );
});

test('each crossing is reported once, is no failure, and is not repeated', () => {
  let reported: ReportedState = NO_REPORTS;
  let time = Date.UTC(2026, 10, 20);
  const sent: string[] = [];
  const see = (percent: number | null): void => {
    reported = observe(reported, percent === null ? [] : found(percent), time);
    const notice = dueNotice(reported, time);
    if (notice === null) return;
    const { event, ok, summary } = formatNotice(notice, hasNoFailures(reported), time, {
      host: 'machine',
      version: '1',
    });
    sent.push(`${event} ${ok} ${summary}`);
    // As over a restart.
    reported = readReported(
      JSON.parse(JSON.stringify(recordAttempt(reported, notice, true, time))),
    );
  };
  const days = (percent: number, count: number): void => {
    for (let day = 0; day < count; day += 1) {
      see(percent);
      time += 20 * MINUTE;
      see(null);
      time += DAY;
    }
  };
  days(50, 2);
  days(96, 4);
  days(94, 2);
  days(97, 2);
  expect(sent).toEqual([
    'warning true mailkeep: warning: quota ada@example.org (Mailbox ada@example.org is 96% full (storage).)',
  ]);
  days(60, 2);
  days(98, 2);
  expect(sent.slice(1)).toEqual([
    'recovered true mailkeep: no longer a warning: quota ada@example.org',
    expect.stringMatching(/^warning true .* 98% full/),
  ]);
  // Something that fails is still a failure next to it.
  const account = { kind: 'account' as const, name: 'main' };
  const failure = { family: 'auth' as const, code: 'auth.refused', message: 'Refused.' };
  reported = observe(reported, [{ subject: account, failure }], time);
  expect(hasNoFailures(reported)).toBe(false);
});
