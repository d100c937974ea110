import type { PlatformClient } from '../api/platform-client.ts';
import type { ListedWebhook } from './judge.ts';

const WEBHOOKS_A_PAGE = 100;
/** For each page that a listing takes, it is good for so long; an hour at most. */
const GOOD_MS_A_PAGE = 14 * 60_000;
const LONGEST_GOOD_MS = 56 * 60_000;

/** The webhooks of an order as the service lists them. One page is asked for each time, many pages once an hour. */
export class WebhookListing {
  #known: { readonly at: number; readonly listed: readonly ListedWebhook[] } | undefined;

  /**
   * @param now milliseconds since the epoch
   * @throws as `PlatformClient`
   */
  async webhooks(
    platform: Pick<PlatformClient, 'eachWebhook'>,
    orderId: string,
    now: number,
    signal: AbortSignal,
  ): Promise<readonly ListedWebhook[]> {
    if (this.#known !== undefined && isGood(this.#known, now)) return this.#known.listed;
    const listed: ListedWebhook[] = [];
    const asked = { signal, perPage: WEBHOOKS_A_PAGE };
    for await (const { id, status, url } of platform.eachWebhook(orderId, asked)) {
      listed.push({ id, status, url });
    }
    this.#known = { at: now, listed };
    return listed;
  }
}

function isGood(
  { at, listed }: { readonly at: number; readonly listed: readonly ListedWebhook[] },
  now: number,
): boolean {
  const pages = Math.ceil(listed.length / WEBHOOKS_A_PAGE);
  const age = now - at;
  return pages > 1 && age >= 0 && age < Math.min(LONGEST_GOOD_MS, pages * GOOD_MS_A_PAGE);
}
