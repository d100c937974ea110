import {
  type FlagSet,
  flagSet,
  type ListedFolder,
  type Listing,
  sameFlags,
} from '../../core/types.ts';

/** Uids from `lo` to `hi`, inclusive. An infinite `hi` includes unassigned uids. */
export interface UidInterval {
  readonly lo: number;
  readonly hi: number;
}

/** Disjoint, ascending, and never adjacent: `[1,5]` and `[6,9]` are stored as `[1,9]`. */
export type UidIntervals = readonly UidInterval[];

/** Returns the set with an interval added. An empty interval (lo above hi) changes nothing. */
export function addInterval(set: UidIntervals, added: UidInterval): UidIntervals {
  if (added.lo > added.hi) return set;
  let { lo, hi } = added;
  const before: UidInterval[] = [];
  const after: UidInterval[] = [];
  for (const interval of set) {
    if (interval.hi < lo - 1) before.push(interval);
    else if (interval.lo > hi + 1) after.push(interval);
    else {
      lo = Math.min(lo, interval.lo);
      hi = Math.max(hi, interval.hi);
    }
  }
  return [...before, { lo, hi }, ...after];
}

/** Returns the parts of `within` not covered by the set, ascending. */
export function findGaps(set: UidIntervals, within: UidInterval): UidIntervals {
  const gaps: UidInterval[] = [];
  let next = within.lo;
  for (const interval of set) {
    if (interval.hi < next) continue;
    if (interval.lo > within.hi) break;
    if (interval.lo > next) gaps.push({ lo: next, hi: interval.lo - 1 });
    next = interval.hi + 1;
  }
  if (next <= within.hi) gaps.push({ lo: next, hi: within.hi });
  return gaps;
}

export function covers(set: UidIntervals, within: UidInterval): boolean {
  return findGaps(set, within).length === 0;
}

/** Tracks a page's messages. Once all are durable, the page's interval is covered. */
export interface PageTicket {
  /** Adds a message that must be stored before the page is covered. */
  expect(): void;
  /** Completes one message: it is durable, quarantined or gone. */
  settle(): void;
  /** Declares that no more messages will be added. */
  seal(): void;
}

/** A message whose fetch has not started, with the page that expects it. */
export interface AwaitedListing {
  readonly listing: Listing;
  readonly ticket: PageTicket;
}

/** A message that may have moved here. Its fingerprint is compared with those of deleted messages. */
export interface DeferredListing extends AwaitedListing {
  readonly fingerprint: string;
}

/**
 * Uids of a UID epoch that responses cover and whose messages are all stored. A resumed sync run walks only the others.
 * Losing the coverage costs listing requests, but no source fetches.
 */
export class Coverage {
  /** Covered and durable: safe to store. */
  durable: UidIntervals;
  /** Covered or being fetched, so this sync run need not walk it again. */
  walked: UidIntervals;
  #dirty = false;

  constructor(durable: UidIntervals) {
    this.durable = durable;
    this.walked = durable;
  }

  /** Returns true once after each change to `durable`. */
  takeDirty(): boolean {
    const dirty = this.#dirty;
    this.#dirty = false;
    return dirty;
  }

  /** Opens a ticket for a page that covers `interval`. */
  ticket(interval: UidInterval): PageTicket {
    this.walked = addInterval(this.walked, interval);
    let expected = 0;
    let settled = 0;
    let isSealed = false;
    const check = (): void => {
      if (!isSealed || settled < expected) return;
      this.durable = addInterval(this.durable, interval);
      this.#dirty = true;
    };
    return {
      expect: () => {
        expected += 1;
      },
      settle: () => {
        settled += 1;
        check();
      },
      seal: () => {
        isSealed = true;
        check();
      },
    };
  }
}

/** Estimate of the remaining work, based on listings. */
export type Forecast = Readonly<Omit<ReturnType<typeof forecast>, 'traffic'>> & {
  readonly traffic?: TrafficPace | undefined;
};

interface FolderAhead {
  /** Number of messages that the service counts in the folder. */
  readonly messages: number;
  readonly known: number;
  /** Mean size of the remaining messages in bytes, if reported by the service. */
  readonly meanBytes?: number | undefined;
}

export const PAGE_SIZE = 100;

/** The newest messages are unrepresentative: their mean size is used only above this share. */
const LISTED_SHARE = 0.9;

/** Adds up the remaining work. `sizes` covers remaining messages listed in folders without a reported mean. */
export function forecast(input: {
  readonly mailboxes: number;
  readonly folders: readonly FolderAhead[];
  readonly sizes: { readonly count: number; readonly bytes: number };
  /** Null if the source limits bytes instead. */
  readonly requestsPerMinute: number | null;
  readonly traffic?: TrafficPace | undefined;
}) {
  const ahead = input.folders.map(({ messages, known }) => Math.max(0, messages - known));
  const messages = ahead.reduce((sum, count) => sum + count, 0);
  const { sizes } = input;
  let unreported = 0;
  let bytes = 0;
  for (const [i, { meanBytes }] of input.folders.entries()) {
    if (meanBytes === undefined) unreported += ahead[i] ?? 0;
    else bytes += (ahead[i] ?? 0) * meanBytes;
  }
  if (unreported > 0) {
    const isKnown = sizes.count >= unreported * LISTED_SHARE;
    bytes = isKnown ? bytes + (unreported * sizes.bytes) / sizes.count : 0;
  }
  const pages = ahead.reduce((sum, count) => sum + Math.max(1, Math.ceil(count / PAGE_SIZE)), 0);
  const { requestsPerMinute: perMinute, traffic } = input;
  const requests = perMinute === null ? 0 : messages + pages + input.mailboxes + 1;
  const work = { messages, bytes: Math.round(bytes) };
  return {
    mailboxes: input.mailboxes,
    folders: input.folders.length,
    /** `bytes` is 0 if the sizes of most messages appear in neither a quota nor the listings. */
    ...work,
    /** One per message, one per page of 100, and the folder listings. 0 if the source does not limit requests. */
    requests,
    /** The current rate; 0 if the source does not limit requests. */
    requestsPerMinute: perMinute ?? 0,
    /** At the current rate, or at the speed of an earlier sync run; the service may be slower. 0 if unknown. */
    hours: perMinute === null ? hoursOf(work, traffic) : requests / perMinute / 60,
    /** Present if the source limits bytes. */
    traffic: traffic && { limit: traffic.limit, speed: traffic.speed },
  };
}

/** How fast messages arrive from a source that limits bytes. */
export interface TrafficPace {
  /** Bytes a day; null for no limit. */
  readonly limit: number | null;
  /** Per second in an earlier sync run; null if unknown. */
  readonly speed: { readonly messages: number; readonly bytes: number } | null;
}

/** Returns the hours to fetch messages at the speed of an earlier sync run and within the day's limit; 0 if unknown. */
export function hoursOf(
  { messages, bytes }: { readonly messages: number; readonly bytes: number },
  traffic: TrafficPace | undefined,
): number {
  const { limit = null, speed = null } = traffic ?? {};
  const byLimit = limit === null || bytes <= limit ? 0 : (bytes / limit) * 24;
  const bySpeed =
    speed === null
      ? 0
      : Math.max(messages / Math.max(speed.messages, 0.1), bytes / Math.max(speed.bytes, 1)) /
        3_600;
  return Math.max(byLimit, bySpeed);
}

export const PLAN_ACTIONS = ['nothing', 'look', 'search', 'walk', 'sweep'] as const;
export const PLAN_REASONS = [
  ...(['empty', 'new-folder', 'interrupted', 'fewer-at-origin'] as const),
  ...(['more-at-origin', 'unread-differs', 'full', 'newest-page'] as const),
  ...(['renamed', 'renumbered', 'unlisted'] as const),
] as const;

export interface FolderPlan {
  readonly folder: string;
  readonly action: (typeof PLAN_ACTIONS)[number];
  readonly reason: (typeof PLAN_REASONS)[number];
  /** Messages at the service that are missing from the archive. */
  readonly messages: number;
  /**
   * Listing pages plus sources. For `search`, the maximum needed to find a difference. 0 if the source does not limit
   * requests.
   */
  readonly requests: number;
  /** The known folder that this one seems to be under a new name. */
  readonly renamedFrom?: string | undefined;
  /** Size of the messages to fetch, about, in bytes; absent if unknown. */
  readonly bytes?: number | undefined;
}

interface KnownOfFolder {
  /** Places that are stored, assumed, held, quarantined or forgotten. */
  readonly accounted: number;
  readonly unread: number;
  readonly covered: UidIntervals;
}

/** Plans one folder from its listing and the archive. `full` reads every page, like `--full`. Pure. */
export function planFolder(
  listed: ListedFolder,
  { accounted, unread, covered }: KnownOfFolder,
  full: boolean,
): FolderPlan {
  const messages = Math.max(0, listed.messageCount - accounted);
  const plan = (
    action: FolderPlan['action'],
    reason: FolderPlan['reason'],
    requests: number,
  ): FolderPlan => ({ folder: listed.path, action, reason, messages, requests });
  if (listed.messageCount === 0 && accounted === 0) return plan('nothing', 'empty', 0);
  const pages = Math.max(1, Math.ceil(messages / PAGE_SIZE));
  const highest = covered[covered.length - 1]?.hi ?? 0;
  if (covered.length === 0) return plan('walk', 'new-folder', messages + pages);
  if (findGaps(covered, { lo: 1, hi: highest }).length > 0) {
    return plan('walk', 'interrupted', messages + pages);
  }
  const maxPages = Math.max(1, Math.ceil(Math.max(listed.messageCount, accounted) / PAGE_SIZE));
  if (full) return plan('sweep', 'full', messages + maxPages);
  // Halving takes two requests per level, but never more than walking every page.
  const search = Math.min(maxPages, 1 + 2 * Math.ceil(Math.log2(maxPages)));
  if (listed.messageCount < accounted) return plan('search', 'fewer-at-origin', pages + search);
  if (listed.messageCount > accounted) return plan('look', 'more-at-origin', messages + pages);
  if (listed.unreadCount !== unread && maxPages > 1) {
    return plan('search', 'unread-differs', pages + search);
  }
  return plan('look', 'newest-page', pages);
}

interface KnownUids {
  readonly open: ReadonlyMap<number, { readonly flags: FlagSet; readonly fingerprint: string }>;
  /** Reports whether a uid without an open place needs no fetch: it is quarantined, forgotten or being fetched. */
  readonly settled: (uid: number) => boolean;
}

/**
 * Compares one response with the archive. Pure: the caller decides the consequences, because a missing place alone is
 * not conclusive.
 *
 * @param fingerprint returns the hash of a listing's immutable fields, as stored with the place
 */
export function observe(
  items: readonly Listing[],
  archive: KnownUids,
  fingerprint: (listing: Listing) => string,
) {
  const appeared: Listing[] = [];
  const flagsChanged: { readonly uid: number; readonly flags: FlagSet }[] = [];
  const contradicted: Listing[] = [];
  const uids = new Set<number>();
  for (const item of items) {
    uids.add(item.uid);
    const place = archive.open.get(item.uid);
    if (place === undefined) {
      if (!archive.settled(item.uid)) appeared.push(item);
    } else if (place.fingerprint !== fingerprint(item)) {
      contradicted.push(item);
    } else {
      const flags = flagSet(item.flags);
      if (!sameFlags(flags, place.flags)) flagsChanged.push({ uid: item.uid, flags });
    }
  }
  const missing = [...archive.open.keys()].filter((uid) => !uids.has(uid));
  return { appeared, flagsChanged, missing, contradicted };
}

/** A request for at most `perPage` uids of `range`, in this order. */
export interface PageQuestion {
  readonly range: UidInterval;
  readonly order: 'descending' | 'ascending';
  readonly perPage: number;
}

/**
 * Evaluates one response. Sorted by uid, it covers the uids from the bound of its request to its last uid, or the whole
 * request if `total` does not exceed its items. A short page alone does not mean that the end was reached.
 *
 * Returns `whole`: the response reaches the end of its request. `interval`: the part of the request that it covers, or
 * null if it has no items even though `total` is nonzero. `doubtful`: the page has room to spare even though `total` is
 * higher, because of a deletion during the request or a service error. The request is then repeated, and a walk never
 * ends on such a page.
 */
export function evaluatePage(
  question: PageQuestion,
  answer: { readonly uids: readonly number[]; readonly total: number },
) {
  const { range, order, perPage } = question;
  const count = answer.uids.length;
  if (answer.total <= count) return { whole: true, interval: range, doubtful: false };
  const last = answer.uids[count - 1];
  const doubtful = count < perPage;
  if (last === undefined) return { whole: false, interval: null, doubtful };
  const interval = order === 'descending' ? { lo: last, hi: range.hi } : { lo: range.lo, hi: last };
  return { whole: false, interval, doubtful };
}

/** Returns the uids of a page in its order, with those that the service lists without showing their messages. */
export function uidsOnPage(
  page: { readonly items: readonly { uid: number }[]; readonly omitted?: readonly number[] },
  order: 'ascending' | 'descending',
): number[] {
  const shown = page.items.map(({ uid }) => uid);
  if (page.omitted === undefined || page.omitted.length === 0) return shown;
  const sign = order === 'ascending' ? 1 : -1;
  return [...shown, ...page.omitted].sort((a, b) => sign * (a - b));
}

/** A step of a bisection. The caller answers a count with a number. A walk needs no answer: its pages are recorded. */
type BisectQuestion =
  | { readonly ask: 'count'; readonly range: UidInterval }
  | { readonly ask: 'walk'; readonly range: UidInterval };

/**
 * Finds uids that differ between the archive and the service, by bisection. Skips a range with the expected count,
 * reads one that fits on a page, and splits any other at its middle uid. If splitting would cost more, walks the range.
 * Yields requests; expects the service's count for each `count`.
 *
 * @param known uids expected to answer, ascending
 * @param range uids in `known` outside this range are ignored
 * @param total the service's count in the range
 */
export function* bisect(
  known: readonly number[],
  range: UidInterval,
  total: number,
  pageSize: number,
): Generator<BisectQuestion, void, number> {
  const from = firstAtLeast(known, range.lo);
  const to = firstAtLeast(known, range.hi + 1);
  const expected = to - from;
  const difference = Math.abs(expected - total);
  if (difference === 0) return;
  const largest = Math.max(expected, total);
  const pages = Math.ceil(largest / pageSize);
  const halvings = Math.ceil(Math.log2(Math.max(1, pages)));
  if (pages <= 1 || expected < 2 || difference * (halvings + 1) >= pages) {
    yield { ask: 'walk', range };
    return;
  }
  const middle = known[from + Math.floor(expected / 2) - 1] ?? range.lo;
  const lower = { lo: range.lo, hi: middle };
  const below = yield { ask: 'count', range: lower };
  yield* bisect(known, lower, below, pageSize);
  yield* bisect(known, { lo: middle + 1, hi: range.hi }, total - below, pageSize);
}

function firstAtLeast(uids: readonly number[], uid: number): number {
  let lo = 0;
  let hi = uids.length;
  while (lo < hi) {
    const middle = (lo + hi) >>> 1;
    if ((uids[middle] ?? 0) < uid) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

/** Mailboxes per request in the Platform API's listing. */
export const MAILBOXES_PER_REQUEST = 100;

const DAY_MS = 86_400_000;
const MIN_MS = 1_800_000;
/** Maximum interval before day-old usage is requested individually. */
const MAX_MS = 20 * 3_600_000;

/**
 * Reports whether a listing costs at most half of the requests that it replaces, one per mailbox.
 *
 * @param pages requests needed for the listing
 * @param mailboxes number of mailboxes whose usage would be requested individually
 */
export function isListingCheaper(pages: number, mailboxes: number): boolean {
  return 2 * pages <= mailboxes;
}

/**
 * Returns the milliseconds between listings, so that they cost at most half a request per mailbox per day (slightly
 * more for 2 mailboxes). Returns null if no interval is worthwhile.
 */
export function listingIntervalMs(pages: number, mailboxes: number): number | null {
  if (!isListingCheaper(pages, mailboxes)) return null;
  return Math.min(MAX_MS, Math.max(MIN_MS, (2 * DAY_MS * pages) / mailboxes));
}

/** Listed size of a mailbox. Null if not reported. */
export interface MailboxTotals {
  readonly bytes: number | null;
  readonly messages: number | null;
}

/**
 * Reports whether a sync run may find something new, because a mailbox has changed since the last listing and differs
 * from the last sync run. Neither result is conclusive.
 *
 * @param before undefined if this is the first listing
 * @param seen returns the number of messages listed when each folder was last synced
 */
export function hasChanged(
  before: MailboxTotals | undefined,
  now: MailboxTotals,
  seen: () => number,
): boolean {
  if (before === undefined) return false;
  if (before.bytes === now.bytes && before.messages === now.messages) return false;
  return now.messages === null || now.messages !== seen();
}
