import type { PlatformClient } from '../api/platform-client.ts';
import type { DeliveryLogRecord } from '../wire/platform-records.ts';
import {
  attemptsOf,
  deliveryKey,
  keepDeliveries,
  keptDeliveries,
  type LoggedDelivery,
  type LogMemory,
} from './delivery-log.ts';
import { judgeWebhooks, type OwnWebhook, type WebhookFinding } from './own-webhooks.ts';
import { WebhookListing } from './webhook-listing.ts';

export interface WatchOptions {
  readonly account: string;
  readonly orderId: string;
  readonly platform: Pick<PlatformClient, 'eachWebhook' | 'eachDeliveryLog'>;
  /** Webhooks that were created from here for this account. */
  readonly own: readonly OwnWebhook[];
  /** The webhooks of the order; without it they are listed each time. */
  readonly listing?: WebhookListing;
  readonly memory: LogMemory;
  /** Called with deliveries that the log did not show before: mail arrived, whether or not it was announced here. */
  readonly onNew?: (deliveries: readonly LoggedDelivery[]) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

/** Entries that are asked for where none is known: two requests. */
const FIRST_ENTRIES = 200;
/** Entries that are asked for at once to come level with the log: ten requests. */
const MOST_ENTRIES = 1_000;
const ENTRIES_A_PAGE = 100;
/** A delivery this old is not tried again any more. */
const OPEN_MS = 24 * 3_600_000;

/**
 * Asks the platform surface whether an account's webhooks are there, active and delivering, and keeps its delivery log.
 * Costs two requests or so where nothing happened; none where no webhook was created from here.
 *
 * @throws as `PlatformClient`
 */
export async function watchDeliveries(options: WatchOptions): Promise<WebhookFinding[]> {
  const { account, orderId, platform, own, memory, onNew, now, signal } = options;
  if (own.length === 0) return [];
  const listing = options.listing ?? new WebhookListing();
  const ids = own.map(({ id }) => id);
  const listed = await listing.webhooks(platform, orderId, ids, now(), signal);
  const before = keptDeliveries(memory, account);
  const logged = await loggedDeliveries(platform, orderId, before, now(), signal);
  const kept = keepDeliveries(memory, account, logged);
  const known = new Set(before.map(deliveryKey));
  const fresh = logged.filter((delivery) => !known.has(deliveryKey(delivery)));
  if (fresh.length > 0) onNew?.(fresh);
  return judgeWebhooks(own, listed, kept, now());
}

/**
 * Returns an order's deliveries from the newest to where the log can hold nothing that is not among `before`.
 *
 * @param now milliseconds since the epoch
 * @throws as `PlatformClient`
 */
export async function loggedDeliveries(
  platform: Pick<PlatformClient, 'eachDeliveryLog'>,
  orderId: string,
  before: readonly LoggedDelivery[],
  now: number,
  signal: AbortSignal,
): Promise<LoggedDelivery[]> {
  const levelAt = levelWith(before, now);
  const most = before.length === 0 ? FIRST_ENTRIES : MOST_ENTRIES;
  const logged: LoggedDelivery[] = [];
  let read = 0;
  let newestFirst = true;
  const asked = { signal, perPage: ENTRIES_A_PAGE };
  for await (const record of platform.eachDeliveryLog(orderId, asked)) {
    read += 1;
    const entry = entryOf(record);
    if (entry !== null) {
      newestFirst &&= entry.at <= (logged.at(-1)?.at ?? Number.POSITIVE_INFINITY);
      logged.push(entry);
    }
    if (read >= most) break;
    // The order of entries is not documented: only one that was seen is relied on.
    const isLevel = newestFirst && (logged.at(-1)?.at ?? Number.POSITIVE_INFINITY) < levelAt;
    if (read % ENTRIES_A_PAGE === 0 && isLevel) break;
  }
  return logged;
}

/** Entries older than this are known and do not change any more; milliseconds since the epoch. */
function levelWith(before: readonly LoggedDelivery[], now: number): number {
  const open = before.filter(
    ({ at, success, attempts, mostAttempts }) =>
      !success && attempts < mostAttempts && now - at < OPEN_MS,
  );
  const newest = before[0]?.at ?? Number.NEGATIVE_INFINITY;
  return Math.min(newest, ...open.map(({ at }) => at));
}

/** Null for an entry whose time cannot be read: it could not be distinguished from others. */
function entryOf(record: DeliveryLogRecord): LoggedDelivery | null {
  const at = Date.parse(record.created_at);
  if (Number.isNaN(at)) return null;
  return {
    at,
    mailbox: record.mailbox_address,
    url: record.webhook_url,
    success: record.is_successful,
    attempts: attemptsOf(record),
    mostAttempts: record.max_retry_count + 1,
    durationMs: record.duration,
  };
}
