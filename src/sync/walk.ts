import { MailkeepError } from '../core/errors.ts';
import type { FolderKey, Listing } from '../core/types.ts';
import { originError } from '../service/errors.ts';
import { syncError } from './errors.ts';
import {
  addInterval,
  covers,
  evaluatePage,
  findGaps,
  PAGE_SIZE,
  type PageQuestion,
  type UidInterval,
  type UidIntervals,
  uidsOnPage,
} from './plan/plan-folder.ts';
import { isRecent, type Memory, type Origin, type OriginPage, type UidOrder } from './ports.ts';

/** A page with the uids it covers, and its messages with those uids. */
interface WalkedPage {
  readonly interval: UidInterval;
  readonly items: readonly Listing[];
  readonly omitted: readonly number[];
  readonly total: number;
  readonly last: boolean;
  /** See `OriginPage`. */
  readonly hasModSeqs?: boolean | undefined;
}

/** Maximum number of requests for a page that contradicts its total before it is accepted. */
const DOUBTS = 3;

/** Memory scope: hosts whose search cannot be used for walks. */
const SEARCH_REFUSED = 'search-refused';
/** Memory scope: hosts whose search ignores flags. */
export const IGNORES_FLAGS = 'flag-search-refused';
const RECONSIDERED_AFTER_MS = 7 * 86_400_000;

/**
 * Walks the uids of a range, newest or oldest first, by keyset: each request starts beyond the last response, so that
 * arrivals and deletions cannot hide anything. If the host cannot search by uid, or returns unrequested uids, stores
 * that fact and walks overlapping pages by offset.
 */
export async function* walkRange(
  deps: { readonly origin: Origin; readonly memory: Memory; readonly signal: AbortSignal },
  at: FolderKey,
  range: UidInterval,
  order: UidOrder,
): AsyncGenerator<WalkedPage> {
  let rest: UidInterval = range;
  let perPage = PAGE_SIZE;
  while (rest.lo <= rest.hi) {
    const wasRefused = !canSearch(deps.memory, at.host);
    const page = wasRefused
      ? 'refused'
      : await askKeyset(deps, at, { range: rest, order, perPage });
    if (page === 'refused') {
      for await (const walked of walkByOffset(deps, at, rest, order)) {
        // Only now is it clear that the host refused the search. The folder might have been unknown.
        if (!wasRefused) deps.memory.set(SEARCH_REFUSED, at.host, true);
        yield walked;
      }
      return;
    }
    yield page;
    if (page.last) return;
    // A host with smaller pages must not be asked three times per page.
    perPage = Math.min(perPage, page.items.length + page.omitted.length);
    rest =
      order === 'descending'
        ? { lo: rest.lo, hi: page.interval.lo - 1 }
        : { lo: page.interval.hi + 1, hi: rest.hi };
  }
}

/** Returns false for a host that cannot search by uid. */
export function canSearch(memory: Memory, host: string): boolean {
  return memory.get(SEARCH_REFUSED, host) === undefined;
}

/** Records that a host's search omits listed messages, so that it is not used again. */
export function markSearchUnreliable(memory: Memory, host: string): void {
  memory.set(SEARCH_REFUSED, host, true);
}

/** Lifts a host's search restrictions after a week, because the service may have been updated. */
export function reconsiderSearch(memory: Memory, host: string, now: number): void {
  for (const scope of [SEARCH_REFUSED, IGNORES_FLAGS] as const) {
    const held = memory.get(scope, host);
    if (held === true) memory.set(scope, host, { since: now });
    else if (held !== undefined && !isRecent(held.since, now, RECONSIDERED_AFTER_MS)) {
      memory.set(scope, host, null);
    }
  }
}

/**
 * Requests a folder's newest page. If the page is empty even though the listing or its own total counts messages, one
 * of them is outdated, so the page is requested once more.
 *
 * @throws MailkeepError `sync.counts-disagree` if they still disagree: such a response cannot be relied on
 */
export async function newestPage(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  listed: number,
): Promise<OriginPage> {
  const newest = { page: 1, perPage: PAGE_SIZE, order: 'descending' } as const;
  let count = listed;
  for (let tries = 1; tries <= 2; tries += 1) {
    const page = await deps.origin.list(at, newest, deps.signal);
    const shown = page.items.length + (page.omitted?.length ?? 0);
    if (shown > 0 || (page.total === 0 && listed === 0)) return page;
    count = Math.max(listed, page.total);
  }
  throw syncError('sync.counts-disagree', { folder: at.folder, listed: count, shown: 0 });
}

async function askKeyset(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  question: PageQuestion,
): Promise<WalkedPage | 'refused'> {
  const { range, order, perPage } = question;
  const uids = `${range.lo}:${range.hi === Number.POSITIVE_INFINITY ? '*' : range.hi}`;
  for (let doubts = 1; ; doubts += 1) {
    let answer: OriginPage;
    try {
      const request = { uids, perPage: PAGE_SIZE, order } as const;
      answer = await deps.origin.search(at, request, deps.signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return 'refused';
    }
    const result = clipToRange(answer, range);
    if (result === 'wrong' || !isInOrder(answer.items, order)) return 'refused';
    const pageSize = Math.min(perPage, answer.perPage ?? perPage);
    const { items, total } = result;
    const { omitted = [] } = answer;
    const uidsFound = uidsOnPage({ items, omitted }, order);
    const verdict = evaluatePage({ ...question, perPage: pageSize }, { uids: uidsFound, total });
    const { interval, whole: last, doubtful } = verdict;
    if (interval !== null && (!doubtful || doubts >= DOUBTS)) {
      return { interval, items, omitted, total, last, hasModSeqs: answer.hasModSeqs };
    }
    if (doubts >= DOUBTS) throw noProgress(at, 'searchMessages', 1, answer);
  }
}

/**
 * Drops the folder's last message if it is below the range, because `n:*` with n beyond the last uid returns it, as in
 * IMAP. If other messages are outside the range, or outnumber its uids, the host cannot search by uid.
 */
function clipToRange(answer: OriginPage, range: UidInterval): OriginPage | 'wrong' {
  const matches = answer.items.filter(({ uid }) => uid >= range.lo && uid <= range.hi);
  if (matches.length === answer.items.length) {
    return answer.total > range.hi - range.lo + 1 ? 'wrong' : answer;
  }
  const lastMessageOnly =
    range.hi === Number.POSITIVE_INFINITY && answer.items.length === 1 && answer.total === 1;
  return lastMessageOnly ? { items: [], total: 0 } : 'wrong';
}

function isInOrder(items: readonly Listing[], order: UidOrder): boolean {
  return items.every((item, i) => {
    const before = items[i - 1];
    if (before === undefined) return true;
    return order === 'ascending' ? before.uid < item.uid : before.uid > item.uid;
  });
}

/**
 * Walks a range by offset. Each page overlaps the previous one by at least one message. If a deletion shifts the pages,
 * the overlap is missing, and the walk steps back to find it. Arrivals only repeat messages. For both orders, uids are
 * mapped to keys that ascend along the walk. If the host has a fixed page size that rules out overlaps,
 * `walkFixedPages` walks the remaining pages.
 */
export async function* walkByOffset(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  range: UidInterval,
  order: UidOrder,
): AsyncGenerator<WalkedPage> {
  const key = (uid: number): number => (order === 'ascending' ? uid : -uid);
  const first = order === 'ascending' ? range.lo : -range.hi;
  const final = order === 'ascending' ? range.hi : -range.lo;
  let seen = 0;
  let distinct = 0;
  /** Highest uid in the first response. Higher uids arrived later, even if the walk steps back. */
  let newest: number | undefined;
  let lastSeen = Number.NEGATIVE_INFINITY;
  let upTo = first - 1;
  let doubts = 0;
  let idle = 0;
  let isHonest = true;
  while (idle < MAX_IDLE_STEPS) {
    const { page, perPage } = pageIncluding(seen);
    const answer = await deps.origin.list(at, { page, perPage, order }, deps.signal);
    const { items, total } = answer;
    if ((answer.perPage ?? perPage) !== perPage || items.length > perPage) break;
    const start = (page - 1) * perPage;
    const whole = total <= start + items.length;
    if (!isInOrder(items, order)) {
      doubts += 1;
      if (doubts >= DOUBTS) throw noProgress(at, 'listMessages', page, answer);
      continue;
    }
    if (!whole && items.length < perPage) {
      doubts += 1;
      if (doubts < DOUBTS) continue;
      isHonest = perPage !== PAGE_SIZE;
      break;
    }
    doubts = 0;
    const head = items[0];
    if (start > 0 && (head === undefined || key(head.uid) > lastSeen)) {
      // Messages deleted before this page may have moved others up past its start.
      seen = Math.max(0, start - PAGE_SIZE + 1);
      idle += 1;
      continue;
    }
    seen = start + items.length;
    const tail = items[items.length - 1];
    const newCount = items.filter(({ uid }) => key(uid) > lastSeen).length;
    idle = newCount > 0 ? 0 : idle + 1;
    distinct += newCount;
    newest ??= head?.uid;
    if (whole && !(await isWhole(deps, at, { total, distinct, newest, order }))) {
      throw noProgress(at, 'listMessages', page, answer, distinct);
    }
    if (tail !== undefined) lastSeen = Math.max(lastSeen, key(tail.uid));
    const end = whole ? final : Math.min(lastSeen, final);
    if (end <= upTo && !whole) continue;
    const matches = items.filter(({ uid }) => key(uid) > upTo && key(uid) <= end);
    const interval =
      order === 'ascending' ? { lo: upTo + 1, hi: end } : { lo: -end, hi: -(upTo + 1) };
    const last = whole || end >= final;
    yield { interval, items: matches, omitted: [], total, last };
    if (last) return;
    upTo = end;
  }
  const rest =
    order === 'ascending' ? { lo: upTo + 1, hi: range.hi } : { lo: range.lo, hi: -(upTo + 1) };
  yield* walkFixedPages(deps, at, rest, isHonest);
}

/** Maximum number of pages to read when counting mail that arrived during a walk. */
const MAX_ARRIVED_PAGES = 1_000;

/**
 * Reports whether a walk saw as many messages as the folder counts. In a descending walk, messages that have arrived
 * since are above the first page, and further requests count them. An empty page is inconclusive.
 *
 * @param walked `newest` is the highest uid on the walk's first page, or undefined if that page was empty
 */
async function isWhole(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  walked: {
    readonly total: number;
    readonly distinct: number;
    readonly newest: number | undefined;
    readonly order: UidOrder;
  },
): Promise<boolean> {
  const { distinct, newest, order } = walked;
  if (walked.total <= distinct) return true;
  if (order === 'ascending' || newest === undefined) return false;
  const arrived = new Set<number>();
  for (let page = 1; page <= MAX_ARRIVED_PAGES; page += 1) {
    const question = { page, perPage: PAGE_SIZE, order } as const;
    const { items, total } = await deps.origin.list(at, question, deps.signal);
    const before = arrived.size;
    for (const { uid } of items) if (uid > newest) arrived.add(uid);
    if (items.some(({ uid }) => uid <= newest)) return total <= distinct + arrived.size;
    if (arrived.size === before) return false;
  }
  return false;
}

/** Maximum number of consecutive requests without a new uid while deletions shift an offset walk's pages. */
const MAX_IDLE_STEPS = 60;
/** Idle steps to charge for a page without new uids if only the service can be the cause. */
const FEW_STEPS = 20;

/**
 * Walks a range in pages of the host's size, newest first. Such pages never overlap. A page accounts for the uids from
 * its first to its last. The uids between two neighbouring pages are accounted for once the next response shows that
 * nothing was deleted: arrivals only push messages down, so a message can be missed only if the total fell. Then the
 * walk steps back. If a host's pages differ in size from what it reports, its offsets are unreliable, and gaps are
 * accounted for only once all messages in its total have been seen.
 *
 * @param isHonest false if the host returns fewer messages than its reported page size
 * @throws origin.paging if the pages make no progress
 */
async function* walkFixedPages(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  range: UidInterval,
  isHonest: boolean,
): AsyncGenerator<WalkedPage> {
  let isStated = isHonest;
  let shown: UidIntervals = [];
  let seen = 0;
  let newest: number | undefined;
  let page = 1;
  let size = 1;
  let idle = 0;
  let doubts = 0;
  let restarts = 0;
  let lastTotal = 0;
  let leastTotal = Number.POSITIVE_INFINITY;
  /** The lowest uid of the preceding page if it is adjacent, and the uids between that page and its predecessor. */
  let before: number | undefined;
  let between: UidInterval | undefined;
  for (;;) {
    const question = { page, perPage: PAGE_SIZE, order: 'descending' } as const;
    const answer = await deps.origin.list(at, question, deps.signal);
    const { items, total } = answer;
    size = answer.perPage ?? Math.max(size, items.length);
    const start = (page - 1) * size;
    const isSorted = isInOrder(items, 'descending');
    const isShort = isStated && items.length < size && start + items.length < total;
    doubts = isShort || !isSorted ? doubts + 1 : 0;
    if (doubts > 0 && doubts < DOUBTS) continue;
    const drop = Math.max(0, lastTotal - total);
    lastTotal = total;
    const isOdd = isStated ? isShort || items.length > size : drop > 0;
    if (!isSorted || (isOdd && restarts >= DOUBTS)) {
      throw noProgress(at, 'listMessages', page, answer, seen);
    }
    if (isOdd) {
      // From here on, only a full count without deletions is conclusive.
      isStated = false;
      restarts += 1;
      shown = [];
      seen = 0;
      newest = undefined;
      page = 1;
      before = undefined;
      between = undefined;
      continue;
    }
    const newCount = items.filter(({ uid }) => !covers(shown, { lo: uid, hi: uid })).length;
    idle = newCount > 0 || total < leastTotal ? 0 : idle + (isStated ? 1 : FEW_STEPS);
    leastTotal = Math.min(leastTotal, total);
    seen += newCount;
    const head = items[0]?.uid ?? 0;
    const last = items[items.length - 1]?.uid;
    if (page === 1) newest ??= items[0]?.uid;
    const intervals: UidInterval[] = [];
    if (drop === 0 && between !== undefined) intervals.push(between);
    between = undefined;
    if (last !== undefined) {
      intervals.push({ lo: last, hi: page === 1 ? Number.POSITIVE_INFINITY : head });
      if (before !== undefined && isStated) between = { lo: head + 1, hi: before - 1 };
    }
    const reachesEnd = isStated
      ? drop === 0 && start + items.length >= total
      : seen >= total || newCount === 0;
    const counts = { total, distinct: seen, newest, order: 'descending' } as const;
    const whole = reachesEnd && (await isWhole(deps, at, counts));
    if (isStated && reachesEnd && !whole) idle += FEW_STEPS;
    if (!whole && idle >= MAX_IDLE_STEPS) {
      throw noProgress(at, 'listMessages', page, answer, seen);
    }
    for (const interval of intervals) shown = addInterval(shown, interval);
    if (whole) intervals.push(...findGaps(shown, { lo: 1, hi: Number.POSITIVE_INFINITY }));
    const isLast = whole || covers(shown, range);
    for (const { lo, hi } of intervals) {
      const interval = { lo: Math.max(lo, range.lo), hi: Math.min(hi, range.hi) };
      if (interval.lo > interval.hi) continue;
      const matches = items.filter(({ uid }) => uid >= interval.lo && uid <= interval.hi);
      yield { interval, items: matches, omitted: [], total, last: isLast };
    }
    if (isLast) return;
    // Messages that moved up may have left the last two pages before they were read.
    page = drop > 0 ? Math.max(1, page - 2 - Math.ceil(drop / size)) : page + 1;
    before = drop > 0 ? undefined : (last ?? before);
    if (drop > 0) between = undefined;
  }
}

/** Returns the page that includes the last seen message and reaches furthest, sized so that the offset works out. */
export function pageIncluding(seen: number): { readonly page: number; readonly perPage: number } {
  if (seen === 0) return { page: 1, perPage: PAGE_SIZE };
  let best = { page: 1, perPage: PAGE_SIZE, end: 0 };
  for (let perPage = PAGE_SIZE; perPage > PAGE_SIZE / 2; perPage -= 1) {
    const page = Math.floor((seen - 1) / perPage) + 1;
    const end = page * perPage;
    if (end > best.end) best = { page, perPage, end };
  }
  return best;
}

const REFUSALS: ReadonlySet<number> = new Set([400, 404, 405, 422, 501]);

/** Reports whether a host refuses this kind of request in general, which makes repeating it pointless. */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof MailkeepError &&
    error.code === 'origin.status' &&
    REFUSALS.has(Number(error.facts.status))
  );
}

function noProgress(
  { host }: FolderKey,
  operation: 'listMessages' | 'searchMessages',
  page: number,
  { items, total }: OriginPage,
  shown = items.length,
): MailkeepError {
  return originError('origin.paging', { operation, host, page, shown, total });
}

/** Responses to requests for individual uids. Undecided uids are in no field. */
interface UidAnswers {
  readonly answered: ReadonlyMap<number, Listing>;
  readonly silent: readonly number[];
  /** Listed without their messages. */
  readonly omitted: ReadonlySet<number>;
}

/** Uids that are probably gone, per request in a new session. They make a line of at most 11 kB. */
const GONE_AT_ONCE = 1_000;

/**
 * Requests single uids (ascending), 100 per request. Walks their range if the host cannot search by uid.
 *
 * @param how.fresh asks in a new session if the service has sessions
 */
export async function fetchUids(
  deps: { readonly origin: Origin; readonly memory: Memory; readonly signal: AbortSignal },
  at: FolderKey,
  uids: readonly number[],
  how: { readonly fresh?: boolean } = {},
): Promise<UidAnswers> {
  const answered = new Map<number, Listing>();
  const omitted = new Set<number>();
  const lo = uids[0];
  const hi = uids[uids.length - 1];
  if (lo === undefined || hi === undefined) return { answered, silent: [], omitted };
  if (!canSearch(deps.memory, at.host)) return walkUids(deps, at, uids, { lo, hi });
  const silent: number[] = [];
  const fresh = how.fresh === true && deps.origin.uids !== undefined;
  const size = fresh ? GONE_AT_ONCE : PAGE_SIZE;
  for (let from = 0; from < uids.length; ) {
    const batch = uids.slice(from, from + size);
    const asked = { uids: batch.join(','), perPage: PAGE_SIZE, order: 'ascending' } as const;
    const page = fresh ? { ...asked, fresh } : asked;
    let answer: OriginPage;
    try {
      answer = await deps.origin.search(at, page, deps.signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // The walk determines whether the search itself is refused, and stores that.
      return walkUids(deps, at, uids, { lo, hi });
    }
    const { items, total } = answer;
    for (const listing of items) answered.set(listing.uid, listing);
    for (const uid of answer.omitted ?? []) omitted.add(uid);
    const found = uidsOnPage(answer, 'ascending');
    // If the total exceeds the number of uids, those beyond the last one are undecided.
    const decided = total <= found.length ? batch : findDecided(found, batch);
    silent.push(...decided.filter((uid) => !answered.has(uid) && !omitted.has(uid)));
    // A page that decides nothing is not requested again.
    from += decided.length === 0 ? batch.length : decided.length;
  }
  return { answered, silent, omitted };
}

/** Returns the uids up to the last one found if the page contains only requested uids, in order. */
function findDecided(found: readonly number[], uids: readonly number[]): readonly number[] {
  const isAnswer = found.every((uid, i) => uids.includes(uid) && uid > (found[i - 1] ?? 0));
  const last = isAnswer ? (found[found.length - 1] ?? 0) : 0;
  return uids.filter((uid) => uid <= last);
}

async function walkUids(
  deps: Parameters<typeof walkRange>[0],
  at: FolderKey,
  uids: readonly number[],
  range: UidInterval,
): Promise<UidAnswers> {
  const requested = new Set(uids);
  const answered = new Map<number, Listing>();
  const omitted = new Set<number>();
  for await (const page of walkRange(deps, at, range, 'ascending')) {
    for (const listing of page.items) {
      if (requested.has(listing.uid)) answered.set(listing.uid, listing);
    }
    for (const uid of page.omitted) if (requested.has(uid)) omitted.add(uid);
  }
  const silent = uids.filter((uid) => !answered.has(uid) && !omitted.has(uid));
  return { answered, silent, omitted };
}
