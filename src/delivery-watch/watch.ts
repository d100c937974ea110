import type { PlatformClient } from '../api/platform-client.ts';
import type { DeliveryLogRecord } from '../wire/platform-records.ts';
import {
  judgeWebhooks,
  type ListedWebhook,
  type LoggedDelivery,
  type OwnWebhook,
  type WebhookFinding,
} from './judge.ts';
import { keepDeliveries, type LogMemory } from './kept-log.ts';

export interface WatchOptions {
  readonly account: string;
  readonly orderId: string;
  readonly platform: Pick<PlatformClient, 'eachWebhook' | 'eachDeliveryLog'>;
  /** Webhooks that were created from here for this account. */
  readonly own: readonly OwnWebhook[];
  readonly memory: LogMemory;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

/** Entries of the log that are asked for: two requests, and more than a quarter of an hour of mail brings. */
const MOST_ENTRIES = 200;

/**
 * Asks the platform surface whether an account's webhooks are there, active and delivering, and keeps its delivery log.
 * Costs three requests or so; none where no webhook was created from here.
 *
 * @throws as `PlatformClient`
 */
export async function watchDeliveries(options: WatchOptions): Promise<WebhookFinding[]> {
  const { account, orderId, platform, own, memory, now, signal } = options;
  if (own.length === 0) return [];
  const listed: ListedWebhook[] = [];
  for await (const { id, status, url } of platform.eachWebhook(orderId, { signal })) {
    listed.push({ id, status, url });
  }
  const told = await loggedDeliveries(platform, orderId, signal);
  return judgeWebhooks(own, listed, keepDeliveries(memory, account, told), now());
}

/**
 * Returns the newest deliveries of an order, at most 200: one or two requests.
 *
 * @throws as `PlatformClient`
 */
export async function loggedDeliveries(
  platform: Pick<PlatformClient, 'eachDeliveryLog'>,
  orderId: string,
  signal?: AbortSignal,
): Promise<LoggedDelivery[]> {
  const told: LoggedDelivery[] = [];
  const asked = { perPage: 100, ...(signal === undefined ? {} : { signal }) };
  for await (const record of platform.eachDeliveryLog(orderId, asked)) {
    const entry = entryOf(record);
    if (entry !== null) told.push(entry);
    if (told.length >= MOST_ENTRIES) break;
  }
  return told;
}

/** Null for an entry whose time cannot be read: it could not be told from others. */
function entryOf(record: DeliveryLogRecord): LoggedDelivery | null {
  const at = Date.parse(record.created_at);
  if (Number.isNaN(at)) return null;
  return {
    at,
    mailbox: record.mailbox_address,
    url: record.webhook_url,
    success: record.is_successful,
    // The service counts retries: the first attempt is none.
    attempts: record.retry_count + 1,
    mostAttempts: record.max_retry_count + 1,
    durationMs: record.duration,
  };
}
