import { expect, test } from 'vitest';
import { countRequests } from './count-requests.ts';

test('passes cost no more requests than they may, by the count of the service', async () => {
  const figures = await countRequests({ folders: 20, messages: 4_000, moved: 100 });
  expect(figures.first).toBeLessThanOrEqual(1.02 * (4_000 + 4_000 / 100 + 22));
  expect(figures.quiet).toBeLessThanOrEqual(2 + 20);
  expect(figures.quietWithDaemon).toBeLessThanOrEqual(5);
  expect(figures.deletion).toBeLessThanOrEqual(4 + 20 + 2 * Math.log2(4_000 / 100));
  expect(figures.moved).toMatchObject({ messages: 100, sources: 0 });
  expect(figures.renumbered.sources).toBeLessThanOrEqual(figures.renumbered.messages / 100);
}, 120_000);
