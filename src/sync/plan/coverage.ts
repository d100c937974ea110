import type { Listing } from '../../mail/words.ts';

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
