import type { PlatformClient } from '../api/platform-client.ts';
import type { ListedWebhook } from './own-webhooks.ts';

const WEBHOOKS_A_PAGE = 100;
/** For each page that a listing takes, it is good for so long; an hour at most. */
const GOOD_MS_A_PAGE = 14 * 60_000;
const LONGEST_GOOD_MS = 56 * 60_000;

/** The webhooks of an order as the service lists them. One page is asked for each time, many pages once an hour. */
export class WebhookListing {
  #known: { readonly at: number; readonly listed: readonly ListedWebhook[] } | undefined;

  /**
   * Returns the webhooks of an order. A kept listing that lacks one of `own`, or shows it inactive, is not used: that one
   * may have been created or resumed since.
   *
   * @param own ids of webhooks that should be there
   * @param now milliseconds since the epoch
   * @throws as `PlatformClient`
   */
  async webhooks(
    platform: Pick<PlatformClient, 'eachWebhook'>,
    orderId: string,
    own: readonly string[],
    now: number,
    signal: AbortSignal,
  ): Promise<readonly ListedWebhook[]> {
    const kept = this.#known;
    if (kept !== undefined && isGood(kept, now) && hasActive(kept.listed, own)) return kept.listed;
    const listed: ListedWebhook[] = [];
    const asked = { signal, perPage: WEBHOOKS_A_PAGE };
    for await (const { id, status, url } of platform.eachWebhook(orderId, asked)) {
      listed.push({ id, status, url });
    }
    this.#known = { at: now, listed };
    return listed;
  }
}

function hasActive(listed: readonly ListedWebhook[], own: readonly string[]): boolean {
  const active = new Set(listed.filter(({ status }) => status === 'active').map(({ id }) => id));
  return own.every((id) => active.has(id));
}

function isGood(
  { at, listed }: { readonly at: number; readonly listed: readonly ListedWebhook[] },
  now: number,
): boolean {
  const pages = Math.ceil(listed.length / WEBHOOKS_A_PAGE);
  const age = now - at;
  return pages > 1 && age >= 0 && age < Math.min(LONGEST_GOOD_MS, pages * GOOD_MS_A_PAGE);
}
