import type { FolderKey, Listing } from '../../../mail/words.ts';
import type { UidInterval } from '../../plan/coverage.ts';
import { PAGE_SIZE } from '../../plan/forecast.ts';
import type { Memory, Origin, OriginPage } from '../ports.ts';
import { canSearch, isRefusal, walkRange } from './walk.ts';

/** The answer to asking for uids by name. */
export interface Named {
  readonly answered: ReadonlyMap<number, Listing>;
  /** Uids that do not answer. Where an answer leaves it open, a uid is in neither. */
  readonly silent: readonly number[];
}

/**
 * Asks a folder for single uids, 100 per request. Where the host does not search by uid, walks their range.
 *
 * @param uids ascending
 */
export async function askByName(
  deps: { readonly origin: Origin; readonly memory: Memory; readonly signal: AbortSignal },
  at: FolderKey,
  uids: readonly number[],
): Promise<Named> {
  const answered = new Map<number, Listing>();
  const lo = uids[0];
  const hi = uids[uids.length - 1];
  if (lo === undefined || hi === undefined) return { answered, silent: [] };
  if (!canSearch(deps.memory, at.host)) return walked(deps, at, uids, { lo, hi });
  const silent: number[] = [];
  for (let from = 0; from < uids.length; ) {
    const named = uids.slice(from, from + PAGE_SIZE);
    const page = { uids: named.join(','), perPage: PAGE_SIZE, order: 'ascending' } as const;
    let answer: OriginPage;
    try {
      answer = await deps.origin.search(at, page, deps.signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // The walk finds out whether the search itself is refused, and remembers it.
      return walked(deps, at, uids, { lo, hi });
    }
    const { items, total } = answer;
    for (const listing of items) answered.set(listing.uid, listing);
    // A total above the number of items leaves open which uids are there beyond the last item.
    const decided = total <= items.length ? named : decidedBy(items, named);
    silent.push(...decided.filter((uid) => !answered.has(uid)));
    // A page that decides nothing is not asked for again.
    from += decided.length === 0 ? named.length : decided.length;
  }
  return { answered, silent };
}

/** Returns the uids up to the last item of a page, if it shows only uids that were asked for, in order. */
function decidedBy(items: readonly Listing[], named: readonly number[]): readonly number[] {
  const isAnswer = items.every(
    ({ uid }, i) => named.includes(uid) && uid > (items[i - 1]?.uid ?? 0),
  );
  const last = isAnswer ? (items[items.length - 1]?.uid ?? 0) : 0;
  return named.filter((uid) => uid <= last);
}

async function walked(
  deps: Parameters<typeof walkRange>[0],
  at: FolderKey,
  uids: readonly number[],
  range: UidInterval,
): Promise<Named> {
  const wanted = new Set(uids);
  const answered = new Map<number, Listing>();
  for await (const { items } of walkRange(deps, at, range, 'ascending')) {
    for (const listing of items) if (wanted.has(listing.uid)) answered.set(listing.uid, listing);
  }
  return { answered, silent: uids.filter((uid) => !answered.has(uid)) };
}
