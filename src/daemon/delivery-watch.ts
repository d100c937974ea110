import { webhookError } from '../core/error-tables.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { StoredWebhook } from '../core/secrets.ts';
import type { StateFile } from '../core/state.ts';
import type { PlatformClient } from '../service/client.ts';
import type { DeliveryLogRecord } from '../service/platform-wire.ts';

export type LogMemory = Pick<StateFile, 'get' | 'set'>;

const SCOPE = 'delivery-log';
/** Maximum number of entries per account, about 100 kB. */
const MOST = 500;

/** Returns an account's recorded webhook deliveries, newest first. */
export function storedDeliveries(
  memory: Pick<LogMemory, 'get'>,
  account: string,
): readonly LoggedDelivery[] {
  return memory.get(SCOPE, account) ?? [];
}

/** Stores the deliveries that the service currently lists. Later entries replace earlier ones. */
export function storeDeliveries(
  memory: LogMemory,
  account: string,
  logged: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const before = storedDeliveries(memory, account);
  const merged = mergeDeliveries(before, logged);
  if (JSON.stringify(merged) !== JSON.stringify(before)) memory.set(SCOPE, account, merged);
  return merged;
}

/** Merges deliveries, newest first. Later entries replace earlier ones. */
export function mergeDeliveries(
  before: readonly LoggedDelivery[],
  later: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const all = new Map([...before, ...later].map((entry) => [deliveryKey(entry), entry]));
  return [...all.values()].sort((a, b) => b.at - a.at).slice(0, MOST);
}

function deliveryKey({ at, mailbox, url }: LoggedDelivery): string {
  return JSON.stringify([at, mailbox, url]);
}

/**
 * Returns the number of attempts made for a delivery log entry. The service does not count the first attempt as a
 * retry, and has no "pending" state. A delivery with no success, retries or duration was never attempted.
 */
export function countAttempts({
  is_successful: isSuccessful,
  duration,
  retry_count: retries,
}: DeliveryLogRecord): number {
  const isUntried = !isSuccessful && retries === 0 && duration === 0;
  return isUntried ? 0 : retries + 1;
}

export type LoggedDelivery = NonNullable<ReturnType<typeof entryOf>>;

/**
 * Reports whether two delivery addresses are the same URL, ignoring the host's case, default ports and an empty path's
 * slash. Invalid URLs are compared literally.
 */
export function isSameAddress(one: string, other: string): boolean {
  return one === other || normalise(one) === normalise(other);
}

function normalise(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}

export type OwnWebhook = Pick<StoredWebhook, 'id' | 'account' | 'mailboxId' | 'mailbox' | 'url'>;

interface ListedWebhook {
  readonly id: string;
  readonly status: string;
  readonly url: string;
}

/** The delivery state of one of our webhooks, according to the service. */
export interface WebhookFinding {
  readonly webhook: OwnWebhook;
  /** `off`: paused or disabled. */
  readonly state: 'well' | 'missing' | 'off' | 'failing';
  /** As spelled by the service; null if it does not know the webhook. */
  readonly status: string | null;
  readonly failures: number;
  readonly lastSuccessAt: number | null;
}

/** Maximum age of failures to consider, because older ones say nothing about the present. */
const RECENT_MS = 24 * 3_600_000;
/** Number of consecutive retried deliveries that rules out coincidence. */
const MANY = 3;

export function judgeWebhooks(
  own: readonly OwnWebhook[],
  listed: readonly ListedWebhook[],
  log: readonly LoggedDelivery[],
  now: number,
): WebhookFinding[] {
  const byId = new Map(listed.map((webhook) => [webhook.id, webhook]));
  return own.map((webhook) => {
    const hook = byId.get(webhook.id);
    // The log contains no ids, so webhooks are matched by mailbox and address.
    const entries = log
      .filter(({ mailbox, url, at, attempts }) => {
        // A delivery that was never attempted has not failed.
        if (attempts === 0) return false;
        const isOurs = mailbox === webhook.mailbox && isSameAddress(url, hook?.url ?? webhook.url);
        return isOurs && now - at < RECENT_MS;
      })
      .sort((a, b) => b.at - a.at);
    const lastSuccess = entries.find(({ success }) => success);
    const failed =
      lastSuccess === undefined ? entries : entries.slice(0, entries.indexOf(lastSuccess));
    const hasGivenUp = failed.some(({ attempts, mostAttempts }) => attempts >= mostAttempts);
    return {
      webhook,
      state: stateOf(hook, hasGivenUp || failed.length >= MANY),
      status: hook?.status ?? null,
      failures: failed.length,
      lastSuccessAt: lastSuccess?.at ?? null,
    };
  });
}

function stateOf(hook: ListedWebhook | undefined, isFailing: boolean): WebhookFinding['state'] {
  if (hook === undefined) return 'missing';
  if (hook.status !== 'active') return 'off';
  return isFailing ? 'failing' : 'well';
}

const WEBHOOKS_A_PAGE = 100;
/** How long a listing stays valid for each of its pages, up to an hour in total. */
const GOOD_MS_A_PAGE = 14 * 60_000;
const MAX_GOOD_MS = 56 * 60_000;

/** The service's list of an order's webhooks. A single page is fetched each time, and several at most once per hour. */
export class WebhookListing {
  #known: { readonly at: number; readonly listed: readonly ListedWebhook[] } | undefined;

  /**
   * Returns an order's webhooks. A cached listing is ignored if any of `own` is missing or inactive in it, because that
   * webhook may since have been created or resumed.
   *
   * @param own ids of the expected webhooks
   * @param now milliseconds since the epoch
   * @throws errors from `PlatformClient`
   */
  async webhooks(
    platform: Pick<PlatformClient, 'eachWebhook'>,
    orderId: string,
    own: readonly string[],
    now: number,
    signal: AbortSignal,
  ): Promise<readonly ListedWebhook[]> {
    const cached = this.#known;
    if (cached !== undefined && isGood(cached, own, now)) return cached.listed;
    const listed: ListedWebhook[] = [];
    const options = { signal, perPage: WEBHOOKS_A_PAGE };
    for await (const { id, status, url } of platform.eachWebhook(orderId, options)) {
      listed.push({ id, status, url });
    }
    this.#known = { at: now, listed };
    return listed;
  }
}

function isGood(
  { at, listed }: { readonly at: number; readonly listed: readonly ListedWebhook[] },
  own: readonly string[],
  now: number,
): boolean {
  const pages = Math.ceil(listed.length / WEBHOOKS_A_PAGE);
  const age = now - at;
  const isFresh = pages > 1 && age >= 0 && age < Math.min(MAX_GOOD_MS, pages * GOOD_MS_A_PAGE);
  const active = new Set(listed.filter(({ status }) => status === 'active').map(({ id }) => id));
  return isFresh && own.every((id) => active.has(id));
}

/** Number of entries to request if none are known, which takes two requests. */
const FIRST_ENTRIES = 200;
/** Maximum number of entries to request to catch up with the log, which takes ten requests. */
const MAX_ENTRIES = 1_000;
const ENTRIES_A_PAGE = 100;
const OPEN_MS = 24 * 3_600_000;

/**
 * Checks over the Platform API whether an account's webhooks exist, are active and deliver, and records its delivery
 * log. Makes about two requests if nothing happened, and none if we have no webhooks.
 *
 * @throws errors from `PlatformClient`
 */
export async function watchDeliveries(options: {
  readonly account: string;
  readonly orderId: string;
  readonly platform: Pick<PlatformClient, 'eachWebhook' | 'eachDeliveryLog'>;
  readonly own: readonly OwnWebhook[];
  readonly listing?: WebhookListing;
  readonly memory: LogMemory;
  /** Called with new deliveries in the log. They reveal that mail has arrived even if no webhook reached us. */
  readonly onNew?: (deliveries: readonly LoggedDelivery[]) => void;
  readonly now: () => number;
  readonly signal: AbortSignal;
}): Promise<WebhookFinding[]> {
  const { account, orderId, platform, own, memory, onNew, now, signal } = options;
  if (own.length === 0) return [];
  const listing = options.listing ?? new WebhookListing();
  const ids = own.map(({ id }) => id);
  const listed = await listing.webhooks(platform, orderId, ids, now(), signal);
  const before = storedDeliveries(memory, account);
  const logged = await fetchDeliveries(platform, orderId, before, now(), signal);
  const stored = storeDeliveries(memory, account, logged);
  const known = new Set(before.map(deliveryKey));
  const fresh = logged.filter((delivery) => !known.has(deliveryKey(delivery)));
  if (fresh.length > 0) onNew?.(fresh);
  return judgeWebhooks(own, listed, stored, now());
}

/**
 * Returns an order's deliveries, from the newest back to those known to be in `before`.
 *
 * @param now milliseconds since the epoch
 * @throws errors from `PlatformClient`
 */
export async function fetchDeliveries(
  platform: Pick<PlatformClient, 'eachDeliveryLog'>,
  orderId: string,
  before: readonly LoggedDelivery[],
  now: number,
  signal: AbortSignal,
): Promise<LoggedDelivery[]> {
  const levelAt = finalBefore(before, now);
  const most = before.length === 0 ? FIRST_ENTRIES : MAX_ENTRIES;
  const logged: LoggedDelivery[] = [];
  let read = 0;
  let newestFirst = true;
  const options = { signal, perPage: ENTRIES_A_PAGE };
  for await (const record of platform.eachDeliveryLog(orderId, options)) {
    read += 1;
    const entry = entryOf(record);
    if (entry !== null) {
      newestFirst &&= entry.at <= (logged.at(-1)?.at ?? Number.POSITIVE_INFINITY);
      logged.push(entry);
    }
    if (read >= most) break;
    // The order of entries is undocumented, so it is relied on only if it was observed.
    const isLevel = newestFirst && (logged.at(-1)?.at ?? Number.POSITIVE_INFINITY) < levelAt;
    if (read % ENTRIES_A_PAGE === 0 && isLevel) break;
  }
  return logged;
}

/** Returns the time, in milliseconds since the epoch, before which all entries are known and final. */
function finalBefore(before: readonly LoggedDelivery[], now: number): number {
  const open = before.filter(
    ({ at, success, attempts, mostAttempts }) =>
      !success && attempts < mostAttempts && now - at < OPEN_MS,
  );
  const newest = before[0]?.at ?? Number.NEGATIVE_INFINITY;
  return Math.min(newest, ...open.map(({ at }) => at));
}

/**
 * Converts a record from the service's log, with times in milliseconds since the epoch. Returns null for an invalid
 * time, because nothing else identifies the entry.
 */
function entryOf(record: DeliveryLogRecord) {
  const at = Date.parse(record.created_at);
  if (Number.isNaN(at)) return null;
  return {
    at,
    mailbox: record.mailbox_address,
    url: record.webhook_url,
    success: record.is_successful,
    /** Attempts made and allowed. 0 while the first one is pending. */
    attempts: countAttempts(record),
    mostAttempts: record.max_retry_count + 1,
    durationMs: record.duration,
  };
}

export interface PlannedMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** A listed webhook. `mailbox` is the address, because the two APIs use different ids. */
interface ListedHook extends ListedWebhook {
  readonly mailbox: string;
}

/** The step that leaves a mailbox with exactly one working webhook of ours at an address. */
export type WebhookStep<Hook extends ListedHook> = {
  readonly mailbox: PlannedMailbox;
  /** Ids of our webhooks for that address that no longer exist at the service. */
  readonly missing: readonly string[];
} & ({ readonly act: 'keep' | 'resume'; readonly hook: Hook } | { readonly act: 'create' });

/**
 * Plans one webhook per mailbox, all with the same address. Only webhooks whose secrets are stored here are ours,
 * because deliveries from others would be refused. Pure.
 *
 * @param own webhooks created here for these mailboxes' account
 */
export function planWebhooks<Hook extends ListedHook>(
  mailboxes: readonly PlannedMailbox[],
  own: readonly Pick<OwnWebhook, 'id' | 'mailboxId' | 'url'>[],
  listed: readonly Hook[],
  url: string,
) {
  const ids = new Set(own.map(({ id }) => id));
  const listedIds = new Set(listed.map(({ id }) => id));
  const byAddress = new Map<string, Hook[]>();
  for (const hook of listed) {
    const address = hook.mailbox.toLowerCase();
    byAddress.set(address, [...(byAddress.get(address) ?? []), hook]);
  }
  const missing = new Map<string, string[]>();
  for (const hook of own) {
    if (listedIds.has(hook.id) || !isSameAddress(hook.url, url)) continue;
    missing.set(hook.mailboxId, [...(missing.get(hook.mailboxId) ?? []), hook.id]);
  }
  const rest: Hook[] = [];
  const steps = mailboxes.map((mailbox): WebhookStep<Hook> => {
    const hooks = byAddress.get(mailbox.address.toLowerCase()) ?? [];
    const usable = hooks.filter((hook) => ids.has(hook.id) && isSameAddress(hook.url, url));
    const hook = usable.find(({ status }) => status === 'active') ?? usable[0];
    rest.push(...hooks.filter((other) => other !== hook));
    const step = { mailbox, missing: missing.get(mailbox.resourceId) ?? [] };
    if (hook === undefined) return { ...step, act: 'create' };
    return { ...step, act: hook.status === 'active' ? 'keep' : 'resume', hook };
  });
  return { steps, others: rest };
}

/** Returns the reason why a webhook does not deliver, or null if it does. */
export function errorOf({
  webhook,
  state,
  status,
  failures,
}: WebhookFinding): MailkeepError | null {
  const { id } = webhook;
  switch (state) {
    case 'well':
      return null;
    case 'missing':
      return webhookError('webhook-missing', { id });
    case 'off':
      return webhookError('webhook-off', { id, status: status ?? '' });
    case 'failing':
      return webhookError('webhook-failing', { id, failures });
  }
}
