import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/sync.ts';
import type { FolderKey, Listing } from '../../../mail/words.ts';
import { type PageQuestion, weighPage } from '../../plan/answer.ts';
import type { UidInterval } from '../../plan/coverage.ts';
import { PAGE_SIZE } from '../../plan/forecast.ts';
import { isRecent, type Memory, type Origin, type OriginPage, type UidOrder } from '../ports.ts';

/** A page that was weighed: the uids it covers, and its messages within them. */
export interface WalkedPage {
  readonly interval: UidInterval;
  readonly items: readonly Listing[];
  readonly total: number;
  /** True when the walk has reached the end of its range. */
  readonly last: boolean;
}

/** How often a page that contradicts its own total is requested before it is accepted as it is. */
const DOUBTS = 3;

/** Scope of memory: hosts whose search does not answer as a walk needs. */
const SEARCH_REFUSED = 'search-refused';
/** Scope of memory: hosts whose search ignores flags. */
export const FLAGS_UNHEEDED = 'flag-search-refused';
const RECONSIDERED_AFTER_MS = 7 * 86_400_000;

/**
 * Walks the uids of a range, newest or oldest first, by keyset: each request starts beyond the last answer, so that
 * mail which arrives or disappears in the meantime cannot hide anything. Where the host refuses to search by uid, or
 * answers with other uids than requested, that is remembered, and overlapping pages are walked by offset.
 */
export async function* walkRange(
  deps: { readonly origin: Origin; readonly memory: Memory; readonly signal: AbortSignal },
  at: FolderKey,
  range: UidInterval,
  order: UidOrder,
): AsyncGenerator<WalkedPage> {
  let rest: UidInterval = range;
  while (rest.lo <= rest.hi) {
    const refusedBefore = !canSearch(deps.memory, at.host);
    const page = refusedBefore
      ? 'refused'
      : await askKeyset(deps, at, { range: rest, order, perPage: PAGE_SIZE });
    if (page === 'refused') {
      for await (const walked of walkByOffset(deps, at, rest, order)) {
        // Only now is it clear that the search was refused, and not that the folder is unknown.
        if (!refusedBefore) deps.memory.set(SEARCH_REFUSED, at.host, true);
        yield walked;
      }
      return;
    }
    yield page;
    if (page.last) return;
    rest =
      order === 'descending'
        ? { lo: rest.lo, hi: page.interval.lo - 1 }
        : { lo: page.interval.hi + 1, hi: rest.hi };
  }
}

/** Returns false for a host that is known not to search by uid. */
export function canSearch(memory: Memory, host: string): boolean {
  return memory.get(SEARCH_REFUSED, host) === undefined;
}

/** Remembers that a host's search denies messages that its listing shows: it is not used again. */
export function distrustSearch(memory: Memory, host: string): void {
  memory.set(SEARCH_REFUSED, host, true);
}

/**
 * Forgets after a week what is remembered against a host: its index may have lagged, or the service was updated.
 * Called once a pass.
 */
export function reconsiderSearch(memory: Memory, host: string, now: number): void {
  for (const scope of [SEARCH_REFUSED, FLAGS_UNHEEDED] as const) {
    const held = memory.get(scope, host);
    if (held === true) memory.set(scope, host, { since: now });
    else if (held !== undefined && !isRecent(held.since, now, RECONSIDERED_AFTER_MS)) {
      memory.set(scope, host, null);
    }
  }
}

/**
 * Requests the newest page of a folder. When it shows nothing although the listing counts messages, requests it once
 * more: one of the two is out of date.
 *
 * @throws MailkeepError `sync.counts-disagree` when they still disagree: such an answer proves nothing
 */
export async function newestPage(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  listed: number,
): Promise<OriginPage> {
  const newest = { page: 1, perPage: PAGE_SIZE, order: 'descending' } as const;
  const page = await deps.origin.list(at, newest, deps.signal);
  if (page.total > 0 || listed === 0) return page;
  const again = await deps.origin.list(at, newest, deps.signal);
  if (again.total > 0) return again;
  throw syncError('sync.counts-disagree', { folder: at.folder, listed, shown: 0 });
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
      answer = await deps.origin.search(at, { uids, perPage, order }, deps.signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return 'refused';
    }
    const found = withinRange(answer, range);
    if (found === 'wrong' || !inOrder(answer.items, order)) return 'refused';
    const page = weigh(question, found);
    if (page !== undefined && (!page.doubtful || doubts >= DOUBTS)) return page.page;
    if (doubts >= DOUBTS) throw inconsistent(at, answer);
  }
}

/**
 * Drops the last message of the folder if it lies below the range: `n:*` with n beyond the last uid returns it, as in
 * IMAP. Any other message outside the range, or more messages than the range has uids, means that the host does not
 * search by uid.
 */
function withinRange(answer: OriginPage, range: UidInterval): OriginPage | 'wrong' {
  const inside = answer.items.filter(({ uid }) => uid >= range.lo && uid <= range.hi);
  if (inside.length === answer.items.length) {
    return answer.total > range.hi - range.lo + 1 ? 'wrong' : answer;
  }
  const lastMessageOnly =
    range.hi === Number.POSITIVE_INFINITY && answer.items.length === 1 && answer.total === 1;
  return lastMessageOnly ? { items: [], total: 0 } : 'wrong';
}

function inOrder(items: readonly Listing[], order: UidOrder): boolean {
  return items.every((item, i) => {
    const before = items[i - 1];
    if (before === undefined) return true;
    return order === 'ascending' ? before.uid < item.uid : before.uid > item.uid;
  });
}

function weigh(
  question: PageQuestion,
  answer: OriginPage,
): { readonly page: WalkedPage; readonly doubtful: boolean } | undefined {
  const evidence = weighPage(question, {
    uids: answer.items.map(({ uid }) => uid),
    total: answer.total,
  });
  if (evidence.interval === null) return undefined;
  return {
    page: {
      interval: evidence.interval,
      items: answer.items,
      total: answer.total,
      last: evidence.whole,
    },
    doubtful: evidence.doubtful,
  };
}

/**
 * Walks a range by offset. Each page overlaps the one before by at least one message: after a deletion has shifted the
 * pages, the overlap is missing, and the walk steps back until it finds it again. Arrivals only repeat messages. Both
 * orders share the code: uids are mapped to keys that ascend in the order of the walk.
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
  let lastSeen = Number.NEGATIVE_INFINITY;
  let upTo = first - 1;
  let doubts = 0;
  for (;;) {
    const { page, perPage } = pageOver(seen);
    const answer = await deps.origin.list(at, { page, perPage, order }, deps.signal);
    const start = (page - 1) * perPage;
    const whole = answer.total <= start + answer.items.length;
    if (!inOrder(answer.items, order) || (!whole && answer.items.length < perPage)) {
      doubts += 1;
      if (doubts >= DOUBTS) throw inconsistent(at, answer);
      continue;
    }
    doubts = 0;
    const head = answer.items[0];
    if (start > 0 && (head === undefined || key(head.uid) > lastSeen)) {
      // Something before this page is gone: messages that moved up past its start may not have been seen.
      seen = Math.max(0, start - PAGE_SIZE + 1);
      continue;
    }
    seen = start + answer.items.length;
    const tail = answer.items[answer.items.length - 1];
    if (tail !== undefined) lastSeen = Math.max(lastSeen, key(tail.uid));
    const end = whole ? final : Math.min(lastSeen, final);
    if (end <= upTo && !whole) continue;
    const items = answer.items.filter(({ uid }) => key(uid) > upTo && key(uid) <= end);
    const interval =
      order === 'ascending' ? { lo: upTo + 1, hi: end } : { lo: -end, hi: -(upTo + 1) };
    const last = whole || end >= final;
    yield { interval, items, total: answer.total, last };
    if (last) return;
    upTo = end;
  }
}

/**
 * Returns the page, of at most `PAGE_SIZE`, that includes the last message seen so far and reaches furthest beyond it.
 * Offsets are multiples of the page's size, so the size is chosen to make one of them fit.
 */
export function pageOver(seen: number): { readonly page: number; readonly perPage: number } {
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

/** Returns whether a host refuses this kind of request in general: repeating it is useless. */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof MailkeepError &&
    error.code === 'origin.status' &&
    REFUSALS.has(Number(error.facts.status))
  );
}

function inconsistent(at: FolderKey, { items, total }: OriginPage): MailkeepError {
  return syncError('sync.inconsistent-page', { folder: at.folder, items: items.length, total });
}
