import {
  type FlagSet,
  flagSet,
  type ListedFolder,
  type Listing,
  sameFlags,
} from '../../core/types.ts';

/** Uids from `lo` to `hi`, both included. `hi` may be Infinity, to include uids that are not assigned yet. */
export interface UidInterval {
  readonly lo: number;
  readonly hi: number;
}

/** Disjoint, ascending, and never adjacent: `[1,5]` and `[6,9]` are stored as `[1,9]`. */
export type UidIntervals = readonly UidInterval[];

/** Returns the union of a set of intervals and one more. An empty interval (lo above hi) changes nothing. */
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

/** Returns the parts of `within` that the set does not cover, ascending. */
export function gapsOf(set: UidIntervals, within: UidInterval): UidIntervals {
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

/** Returns whether every uid of `within` is covered. */
export function covers(set: UidIntervals, within: UidInterval): boolean {
  return gapsOf(set, within).length === 0;
}

/** Tracks the messages of one page: when the last of them is durable, the interval of the page is covered. */
export interface PageTicket {
  /** One more message of this page has to be stored before the page counts. */
  expect(): void;
  /** One of them is durable, is recorded as quarantined, or turned out to be gone. */
  settle(): void;
  /** No further message will be expected. */
  seal(): void;
}

/** A message that is not being fetched yet, and the page that expects it. */
export interface AwaitedListing {
  readonly listing: Listing;
  readonly ticket: PageTicket;
}

/** A message that may be a move: its fingerprint is compared with those of messages that are gone. */
export interface DeferredListing extends AwaitedListing {
  readonly fingerprint: string;
}

/**
 * The uids of a folder's generation that an answer covers, with every message in them stored. A resumed pass walks
 * only what is not covered. Losing the coverage costs listings, never sources.
 */
export class Coverage {
  #durable: UidIntervals;
  #walked: UidIntervals;
  #dirty = false;

  constructor(durable: UidIntervals) {
    this.#durable = durable;
    this.#walked = durable;
  }

  /** Covered and durable: what may be remembered. */
  get durable(): UidIntervals {
    return this.#durable;
  }

  /** Covered, or being fetched: what this pass need not walk again. */
  get walked(): UidIntervals {
    return this.#walked;
  }

  /** Returns true once after each change of `durable`. */
  takeDirty(): boolean {
    const dirty = this.#dirty;
    this.#dirty = false;
    return dirty;
  }

  /** Opens the ticket of a page that covers `interval`. */
  ticket(interval: UidInterval): PageTicket {
    this.#walked = addInterval(this.#walked, interval);
    let expected = 0;
    let settled = 0;
    let sealed = false;
    const check = (): void => {
      if (!sealed || settled < expected) return;
      this.#durable = addInterval(this.#durable, interval);
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
        sealed = true;
        check();
      },
    };
  }
}

/** The remaining work of a sync, estimated from listings. */
export interface Forecast {
  readonly mailboxes: number;
  readonly folders: number;
  readonly messages: number;
  /** 0 where neither a quota nor the listings so far show how large most of the messages are. */
  readonly bytes: number;
  /** One per message, one per page of 100, and the folder listings. */
  readonly requests: number;
  /** The rate in force. */
  readonly requestsPerMinute: number;
  /** Hours at this rate; the service may be slower. */
  readonly hours: number;
}

interface FolderAhead {
  /** Messages the origin counts in the folder. */
  readonly messages: number;
  /** Those of them that are in the archive already. */
  readonly known: number;
  /** Mean size in bytes of the messages ahead, if the origin reports it. */
  readonly meanBytes?: number | undefined;
}

export const PAGE_SIZE = 100;

/** The newest messages are no sample of the rest: their mean size counts once it covers this share of the messages. */
const LISTED_SHARE = 0.9;

/**
 * Adds up the remaining work. `sizes` are the sizes of the messages ahead that were listed so far, of folders without
 * a reported mean.
 */
export function forecast(input: {
  readonly mailboxes: number;
  readonly folders: readonly FolderAhead[];
  readonly sizes: { readonly count: number; readonly bytes: number };
  readonly requestsPerMinute: number;
}): Forecast {
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
  const requests = messages + pages + input.mailboxes + 1;
  return {
    mailboxes: input.mailboxes,
    folders: input.folders.length,
    messages,
    bytes: Math.round(bytes),
    requests,
    requestsPerMinute: input.requestsPerMinute,
    hours: requests / input.requestsPerMinute / 60,
  };
}

/** What a pass would do with a folder, why, and how many requests that takes. Data, so that it can be printed. */
export interface FolderPlan {
  readonly folder: string;
  readonly action: 'nothing' | 'look' | 'search' | 'walk' | 'sweep';
  readonly reason:
    | 'empty'
    | 'new-folder'
    | 'interrupted'
    | 'fewer-at-origin'
    | 'more-at-origin'
    | 'unread-differs'
    | 'full'
    | 'newest-page';
  /** Messages that the origin has and the archive does not account for. */
  readonly messages: number;
  /** Listing pages and sources together; for `search` the most that finding a difference may take. */
  readonly requests: number;
}

/** What the archive knows of a folder. */
interface KnownOfFolder {
  /** Places that are stored, assumed, held, quarantined or forgotten. */
  readonly accounted: number;
  readonly unread: number;
  /** Uids that earlier passes covered. */
  readonly covered: UidIntervals;
}

/**
 * Plans one folder from its listing and what the archive has of it. Pure.
 *
 * @param full every page is read, as `--full` does
 */
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
  if (gapsOf(covered, { lo: 1, hi: highest }).length > 0) {
    return plan('walk', 'interrupted', messages + pages);
  }
  const largest = Math.max(1, Math.ceil(Math.max(listed.messageCount, accounted) / PAGE_SIZE));
  if (full) return plan('sweep', 'full', messages + largest);
  // Halving finds a difference in two requests per level, and never takes more than walking every page.
  const search = Math.min(largest, 1 + 2 * Math.ceil(Math.log2(largest)));
  if (listed.messageCount < accounted) return plan('search', 'fewer-at-origin', pages + search);
  if (listed.messageCount > accounted) return plan('look', 'more-at-origin', messages + pages);
  if (listed.unreadCount !== unread && largest > 1) {
    return plan('search', 'unread-differs', pages + search);
  }
  return plan('look', 'newest-page', pages);
}

/** What the mirror knows of the uids that an answer covers. */
interface KnownUids {
  readonly open: ReadonlyMap<number, { readonly flags: FlagSet; readonly fingerprint: string }>;
  /** Returns whether a uid needs no fetch although no place is open: quarantined, forgotten, or being fetched. */
  readonly settled: (uid: number) => boolean;
}

/** How an answer differs from what is known. */
interface Observation {
  /** Listed and not known: to be fetched. */
  readonly appeared: readonly Listing[];
  readonly flagsChanged: readonly { readonly uid: number; readonly flags: FlagSet }[];
  /** Open places in the interval that the answer lacks. This alone proves nothing. */
  readonly missing: readonly number[];
  /** Open places whose uid answers with another listing than the one it appeared with. */
  readonly contradicted: readonly Listing[];
}

/**
 * Compares one answer with what is known of its interval. Pure: callers decide what follows.
 *
 * @param fingerprint hex over the immutable fields of a listing, as stored with the place
 */
export function observe(
  items: readonly Listing[],
  known: KnownUids,
  fingerprint: (listing: Listing) => string,
): Observation {
  const appeared: Listing[] = [];
  const flagsChanged: { uid: number; flags: FlagSet }[] = [];
  const contradicted: Listing[] = [];
  const answered = new Set<number>();
  for (const item of items) {
    answered.add(item.uid);
    const place = known.open.get(item.uid);
    if (place === undefined) {
      if (!known.settled(item.uid)) appeared.push(item);
    } else if (place.fingerprint !== fingerprint(item)) {
      contradicted.push(item);
    } else {
      const flags = flagSet(item.flags);
      if (!sameFlags(flags, place.flags)) flagsChanged.push({ uid: item.uid, flags });
    }
  }
  const missing = [...known.open.keys()].filter((uid) => !answered.has(uid));
  return { appeared, flagsChanged, missing, contradicted };
}

/** A request for the uids of `range`, sorted in this order, at most `perPage` of them. */
export interface PageQuestion {
  readonly range: UidInterval;
  readonly order: 'descending' | 'ascending';
  readonly perPage: number;
}

/** The part of a page that counts as evidence. */
interface PageAnswer {
  readonly uids: readonly number[];
  readonly total: number;
}

/**
 * The uids that one answer covers.
 *
 * `whole`: the answer reaches the end of its request, because `total` is not above the number of its items.
 * `interval`: the part of the request that it covers; null when it covers nothing (no items, yet a total).
 * `doubtful`: a page with fewer items than it can hold, although `total` is higher: something disappeared between
 * counting and reading, or the origin is wrong. The request is repeated, and a walk never ends on such a page.
 */
interface PageEvidence {
  readonly whole: boolean;
  readonly interval: UidInterval | null;
  readonly doubtful: boolean;
}

/**
 * Weighs one answer. An answer sorted by uid covers the uids from the bound of its request to its last uid, or the
 * complete request when `total` is not above the number of its items; never just because a page is short.
 */
export function weighPage(question: PageQuestion, answer: PageAnswer): PageEvidence {
  const { range, order, perPage } = question;
  const count = answer.uids.length;
  if (answer.total <= count) return { whole: true, interval: range, doubtful: false };
  const last = answer.uids[count - 1];
  const doubtful = count < perPage;
  if (last === undefined) return { whole: false, interval: null, doubtful };
  const interval = order === 'descending' ? { lo: last, hi: range.hi } : { lo: range.lo, hi: last };
  return { whole: false, interval, doubtful };
}

/** A question of a bisection. The answer to a count is a number; a walk needs none, because its pages are recorded. */
type BisectQuestion =
  | { readonly ask: 'count'; readonly range: UidInterval }
  | { readonly ask: 'walk'; readonly range: UidInterval };

/**
 * Searches for the uids in which archive and origin differ, with as few requests as halving allows: a range whose count
 * is as expected is skipped, one that fits on a page is read, any other is cut at its middle uid. When so much differs
 * that halving would cost more, the range is walked.
 *
 * Yields questions; expects the origin's count as the answer to a `count`.
 *
 * @param known uids that are expected to answer, ascending
 * @param range the uids in question; `known` outside of it is ignored
 * @param total how many the origin has in the range
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

/** Returns the index of the first uid at or above `uid`. */
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

/** Mailboxes per request of the platform surface's listing. */
export const MAILBOXES_A_REQUEST = 100;

const DAY_MS = 86_400_000;
/** A listing is not requested more often, however many mailboxes it shows. */
const LEAST_MS = 1_800_000;
/** A usage that is a day old is requested by itself: the listing comes before that. */
const LONGEST_MS = 20 * 3_600_000;

/**
 * Returns whether a listing costs at most half of the requests that it replaces: one per mailbox.
 *
 * @param pages requests of the listing
 * @param mailboxes whose usage would be requested one by one
 */
export function listingPaysOff(pages: number, mailboxes: number): boolean {
  return 2 * pages <= mailboxes;
}

/**
 * Returns the milliseconds between two listings, so that a day of them costs at most half of one request per day and
 * mailbox (a little more than half for 2 mailboxes); null when no interval is worth it.
 */
export function listingEveryMs(pages: number, mailboxes: number): number | null {
  if (!listingPaysOff(pages, mailboxes)) return null;
  return Math.min(LONGEST_MS, Math.max(LEAST_MS, (2 * DAY_MS * pages) / mailboxes));
}

/** What a mailbox holds by a listing; null where the listing does not say. */
export interface HeldAmounts {
  readonly bytes: number | null;
  readonly messages: number | null;
}

/**
 * Returns whether a mailbox holds something else than at the listing before, and not what the last pass saw there: then
 * a pass may find something new. Neither answer proves anything.
 *
 * @param before undefined for a first listing
 * @param seen messages that the origin listed at the last pass over each folder
 */
export function hasMoved(
  before: HeldAmounts | undefined,
  now: HeldAmounts,
  seen: () => number,
): boolean {
  if (before === undefined) return false;
  if (before.bytes === now.bytes && before.messages === now.messages) return false;
  return now.messages === null || now.messages !== seen();
}
