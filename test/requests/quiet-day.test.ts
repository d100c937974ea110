import { expect, test } from 'vitest';
import { listingIntervalMs } from '../../src/sync/plan/plan-folder.ts';
import { quietDay } from './quiet-day.ts';

const PASSES = ['getCurrentAccount', 'listFolders', 'listMessages', 'searchMessages'];

test('a token for the platform surface makes a quiet day of many mailboxes cheaper', async () => {
  const size = { mailboxes: 40, everyMinutes: 720, webhooks: false };
  const { withoutPlatform, withPlatform } = await quietDay(size);
  const before = withoutPlatform.byOperation;
  const after = withPlatform.byOperation;
  expect(before.getQuota).toBe(40);
  expect(after.getQuota).toBeUndefined();
  expect(after['platform.listMailboxes']).toBeLessThanOrEqual(40 / 2);
  expect(withPlatform.perHour).toBeLessThan(withoutPlatform.perHour);
  // It spares nothing that the mirror rests on.
  for (const operation of PASSES) expect(after[operation]).toBe(before[operation]);
}, 120_000);

test('where it would not be cheaper, nothing is listed', () => {
  const day = 86_400_000;
  expect(listingIntervalMs(1, 1)).toBeNull();
  expect(listingIntervalMs(100, 150)).toBeNull();
  for (const [pages, mailboxes] of [
    [1, 2],
    [1, 10],
    [1, 100],
    [10, 1_000],
    [30, 70],
    [100, 10_000],
  ] as const) {
    const every = listingIntervalMs(pages, mailboxes) ?? 0;
    expect((day / every) * pages).toBeLessThanOrEqual(Math.max(0.6 * mailboxes, 1.2 * pages));
    // A quota that is a day old would be asked for by itself.
    expect(every).toBeLessThan(day);
  }
});
