import { type FlagSet, flagSet, type Listing, sameFlags } from '../../mail/words.ts';
import type { UidInterval } from './coverage.ts';

/** What the mirror knows of the uids that an answer covers. */
export interface KnownUids {
  readonly open: ReadonlyMap<number, { readonly flags: FlagSet; readonly fingerprint: string }>;
  /** Returns whether a uid needs no fetch although no place is open: quarantined, forgotten, or being fetched. */
  readonly settled: (uid: number) => boolean;
}

/** How an answer differs from what is known. */
export interface Observation {
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
export interface PageAnswer {
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
export interface PageEvidence {
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
