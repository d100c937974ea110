import type { StoredWebhook } from '../core/secrets.ts';
import type { StateFile } from '../core/state.ts';
import type { PlatformClient } from '../service/client.ts';
import type { DeliveryLogRecord } from '../service/platform-wire.ts';

/** Where the log is kept: the archive's state. */
export type LogMemory = Pick<StateFile, 'get' | 'set'>;

const SCOPE = 'delivery-log';
/** Entries of one account; about 100 kB. */
const MOST = 500;

/** The deliveries of an account's webhooks that are remembered, newest first. */
export function keptDeliveries(
  memory: Pick<LogMemory, 'get'>,
  account: string,
): readonly LoggedDelivery[] {
  return memory.get(SCOPE, account) ?? [];
}

/** Adds what the service lists now; of a delivery that is listed again, the later entry counts. */
export function keepDeliveries(
  memory: LogMemory,
  account: string,
  logged: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const before = keptDeliveries(memory, account);
  const kept = mergedDeliveries(before, logged);
  if (JSON.stringify(kept) !== JSON.stringify(before)) memory.set(SCOPE, account, kept);
  return kept;
}

/** Merges deliveries, newest first; of one that is in both, the later entry counts. */
export function mergedDeliveries(
  before: readonly LoggedDelivery[],
  later: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const all = new Map([...before, ...later].map((entry) => [deliveryKey(entry), entry]));
  return [...all.values()].sort((a, b) => b.at - a.at).slice(0, MOST);
}

/** Returns a key that distinguishes one entry of the log from the others: it has no id of its own. */
function deliveryKey({ at, mailbox, url }: LoggedDelivery): string {
  return JSON.stringify([at, mailbox, url]);
}

/**
 * Returns how many attempts an entry of the delivery log reports.
 *
 * The service counts retries, of which the first attempt is none, and has no state "pending": a delivery that was never
 * tried has neither succeeded, nor been retried, nor taken any time.
 */
export function attemptsOf({
  is_successful: isSuccessful,
  duration,
  retry_count: retries,
}: DeliveryLogRecord): number {
  const isUntried = !isSuccessful && retries === 0 && duration === 0;
  return isUntried ? 0 : retries + 1;
}

export type LoggedDelivery = NonNullable<ReturnType<typeof entryOf>>;

/**
 * Returns whether two addresses of deliveries are the same as URLs: the case of the host, a default port and the slash
 * of an empty path make no difference. What is no URL is compared letter by letter.
 */
export function isSameAddress(one: string, other: string): boolean {
  return one === other || normal(one) === normal(other);
}

function normal(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}

/** A webhook that was created from here. */
export type OwnWebhook = Pick<StoredWebhook, 'id' | 'account' | 'mailboxId' | 'mailbox' | 'url'>;

interface ListedWebhook {
  readonly id: string;
  readonly status: string;
  readonly url: string;
}

/** Whether a webhook of ours delivers, by what the service says of it. */
export interface WebhookFinding {
  readonly webhook: OwnWebhook;
  /** `off`: paused or disabled. */
  readonly state: 'well' | 'missing' | 'off' | 'failing';
  /** As the service spells it; null where it does not know the webhook. */
  readonly status: string | null;
  /** Deliveries that failed in a row, the newest first. */
  readonly failures: number;
  readonly lastSuccessAt: number | null;
}

/** What failed longer ago says nothing of today. */
const RECENT_MS = 24 * 3_600_000;
/** Deliveries in a row that are being tried again are no accident any more. */
const MANY = 3;

/** Judges the webhooks that were created from here. Pure. */
export function judgeWebhooks(
  own: readonly OwnWebhook[],
  listed: readonly ListedWebhook[],
  log: readonly LoggedDelivery[],
  now: number,
): WebhookFinding[] {
  const byId = new Map(listed.map((webhook) => [webhook.id, webhook]));
  return own.map((webhook) => {
    const there = byId.get(webhook.id);
    // The log names no ids: a webhook is known in it by its mailbox and its address.
    const entries = log
      .filter(({ mailbox, url, at, attempts }) => {
        // What was never tried has not failed.
        if (attempts === 0) return false;
        const ours = mailbox === webhook.mailbox && isSameAddress(url, there?.url ?? webhook.url);
        return ours && now - at < RECENT_MS;
      })
      .sort((a, b) => b.at - a.at);
    const lastSuccess = entries.find(({ success }) => success);
    const failed =
      lastSuccess === undefined ? entries : entries.slice(0, entries.indexOf(lastSuccess));
    const givenUp = failed.some(({ attempts, mostAttempts }) => attempts >= mostAttempts);
    return {
      webhook,
      state: stateOf(there, givenUp || failed.length >= MANY),
      status: there?.status ?? null,
      failures: failed.length,
      lastSuccessAt: lastSuccess?.at ?? null,
    };
  });
}

function stateOf(there: ListedWebhook | undefined, failing: boolean): WebhookFinding['state'] {
  if (there === undefined) return 'missing';
  if (there.status !== 'active') return 'off';
  return failing ? 'failing' : 'well';
}

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
export async function watchDeliveries(options: {
  readonly account: string;
  readonly orderId: string;
  readonly platform: Pick<PlatformClient, 'eachWebhook' | 'eachDeliveryLog'>;
  readonly own: readonly OwnWebhook[];
  /** The webhooks of the order; without it they are listed each time. */
  readonly listing?: WebhookListing;
  readonly memory: LogMemory;
  /** Called with deliveries that the log did not show before: mail arrived, whether or not it was announced here. */
  readonly onNew?: (deliveries: readonly LoggedDelivery[]) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}): Promise<WebhookFinding[]> {
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

/**
 * Returns a delivery as the service's log shows it, with times in milliseconds since the epoch; null for an entry whose
 * time cannot be read, which could not be distinguished from others.
 */
function entryOf(record: DeliveryLogRecord) {
  const at = Date.parse(record.created_at);
  if (Number.isNaN(at)) return null;
  return {
    at,
    /** The mailbox's address. */
    mailbox: record.mailbox_address,
    url: record.webhook_url,
    success: record.is_successful,
    /** Attempts that were made, and that may be; none where the delivery waits for its first. */
    attempts: attemptsOf(record),
    mostAttempts: record.max_retry_count + 1,
    durationMs: record.duration,
  };
}

export interface PlannedMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** A webhook as an order or a mailbox lists it; `mailbox` is the address, since the surfaces have ids of their own. */
interface ListedHook extends ListedWebhook {
  readonly mailbox: string;
}

/** What a mailbox needs so that it has one webhook of ours at an address, and that one delivers. */
export type WebhookStep<Hook extends ListedHook> = {
  readonly mailbox: PlannedMailbox;
  /** Ids of ours at that address that the service does not know any more. */
  readonly missing: readonly string[];
} & ({ readonly act: 'keep' | 'resume'; readonly hook: Hook } | { readonly act: 'create' });

interface WebhookPlan<Hook extends ListedHook> {
  /** One for each mailbox, in their order. */
  readonly steps: readonly WebhookStep<Hook>[];
  /** Other webhooks of these mailboxes: nothing is done about them. */
  readonly others: readonly Hook[];
}

/**
 * Plans one webhook of ours for each mailbox, at one address. Only webhooks whose secrets are stored here are ours: what
 * others deliver would be refused. Pure.
 *
 * @param own webhooks that were created from here, for the account of these mailboxes
 */
export function planWebhooks<Hook extends ListedHook>(
  mailboxes: readonly PlannedMailbox[],
  own: readonly Pick<OwnWebhook, 'id' | 'mailboxId' | 'url'>[],
  listed: readonly Hook[],
  url: string,
): WebhookPlan<Hook> {
  const ours = new Set(own.map(({ id }) => id));
  const known = new Set(listed.map(({ id }) => id));
  const byAddress = new Map<string, Hook[]>();
  for (const hook of listed) {
    const address = hook.mailbox.toLowerCase();
    byAddress.set(address, [...(byAddress.get(address) ?? []), hook]);
  }
  const missing = new Map<string, string[]>();
  for (const hook of own) {
    if (known.has(hook.id) || !isSameAddress(hook.url, url)) continue;
    missing.set(hook.mailboxId, [...(missing.get(hook.mailboxId) ?? []), hook.id]);
  }
  const others: Hook[] = [];
  const steps = mailboxes.map((mailbox): WebhookStep<Hook> => {
    const there = byAddress.get(mailbox.address.toLowerCase()) ?? [];
    const usable = there.filter((hook) => ours.has(hook.id) && isSameAddress(hook.url, url));
    const hook = usable.find(({ status }) => status === 'active') ?? usable[0];
    others.push(...there.filter((other) => other !== hook));
    const step = { mailbox, missing: missing.get(mailbox.resourceId) ?? [] };
    if (hook === undefined) return { ...step, act: 'create' };
    return { ...step, act: hook.status === 'active' ? 'keep' : 'resume', hook };
  });
  return { steps, others };
}
