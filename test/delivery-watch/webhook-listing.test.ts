import { expect, test } from 'vitest';
import { WebhookListing } from '../../src/daemon/delivery-watch.ts';
import { platformWebhookRecord } from '../../src/service/platform-wire.ts';

const QUARTER = 15 * 60_000;

/** Requests of a day in which an order of so many webhooks is checked every quarter of an hour. */
async function requestsOfADay(webhooks: number): Promise<number> {
  let requests = 0;
  const platform = {
    async *eachWebhook(_order: string, { perPage = 0 } = {}) {
      for (let n = 0; n < webhooks; n += 1) {
        if (n % perPage === 0) requests += 1;
        yield platformWebhookRecord.parse({ id: `w${n}`, status: 'active', url: 'u' });
      }
    },
  };
  const listing = new WebhookListing();
  const { signal } = new AbortController();
  for (let n = 0; n < 96; n += 1) {
    expect(await listing.webhooks(platform, 'OR1', [], n * QUARTER, signal)).toHaveLength(webhooks);
  }
  return requests;
}

test('one page of webhooks is asked for each time, many pages once an hour', async () => {
  expect(await requestsOfADay(100)).toBe(96);
  expect(await requestsOfADay(200)).toBe(2 * 48);
  expect(await requestsOfADay(1_000)).toBe(10 * 24);
});

test('a webhook that was created or resumed since is found at the next look', async () => {
  const hooks = Array.from({ length: 150 }, (_, n) => ({ id: `w${n}`, status: 'active' }));
  const platform = {
    async *eachWebhook() {
      for (const hook of hooks) yield platformWebhookRecord.parse({ ...hook, url: 'u' });
    },
  };
  const listing = new WebhookListing();
  const { signal } = new AbortController();
  const look = (own: readonly string[], at: number) =>
    listing.webhooks(platform, 'OR1', own, at, signal);
  await look(['w0'], 0);
  hooks.push({ id: 'new', status: 'active' });
  expect(await look(['w0', 'new'], QUARTER)).toContainEqual(expect.objectContaining({ id: 'new' }));
  for (const hook of hooks) if (hook.id === 'w0') hook.status = 'inactive';
  const paused = await new WebhookListing().webhooks(platform, 'OR1', [], 0, signal);
  expect(paused).toContainEqual(expect.objectContaining({ id: 'w0', status: 'inactive' }));
});
