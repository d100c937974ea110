import type { FolderKey, Listing } from '../../../mail/words.ts';
import { addInterval, type UidInterval, type UidIntervals } from '../../plan/uid-intervals.ts';
import { folderKey, type Memory } from '../ports.ts';

/** A page whose messages are on their way: when the last of them is durable, its interval is covered. */
export interface PageTicket {
  /** One more message of this page has to be stored before the page counts. */
  expect(): void;
  /** One of them is durable (or is recorded as quarantined, or proved to be gone). */
  settle(): void;
  /** No further message will be expected. */
  seal(): void;
}

/** A message that is not being fetched yet, and the page that expects it. */
export interface AwaitedListing {
  readonly listing: Listing;
  readonly ticket: PageTicket;
}

/** One that may be a move: its fingerprint is compared with those of messages that ended. */
export interface DeferredListing extends AwaitedListing {
  readonly fingerprint: string;
}

/**
 * Which uids of a folder's generation were answered for, with every message in them stored. A resumed pass
 * walks only what is not covered. It is a convenience: losing it costs listings, never sources.
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

  /** Covered, or on its way: what this pass need not walk again. */
  get walked(): UidIntervals {
    return this.#walked;
  }

  /** True once after each change of `durable`. */
  takeDirty(): boolean {
    const dirty = this.#dirty;
    this.#dirty = false;
    return dirty;
  }

  /** Opens the ticket of a page that speaks for `interval`. */
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

/** Scope of memory: the covered uid intervals of each folder's generation. */
const COVERAGE = 'coverage';

/** The covered intervals that earlier passes remembered of a folder's generation. */
export function recalledCoverage(memory: Memory, at: FolderKey, generation: number): UidIntervals {
  return parseIntervals(memory.get(COVERAGE, `${folderKey(at)}/${generation}`));
}

/** Remembers what is durably covered, if that has changed since it was last asked. */
export function rememberCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  coverage: Coverage,
): void {
  if (!coverage.takeDirty()) return;
  const pairs = coverage.durable.map(({ lo, hi }) => [lo, hi]);
  memory.set(COVERAGE, `${folderKey(at)}/${generation}`, pairs);
}

/** Takes what is remembered of a folder over to the path it was renamed to. */
export function moveCoverage(memory: Memory, at: FolderKey, to: string, generation: number): void {
  const from = `${folderKey(at)}/${generation}`;
  const kept = memory.get(COVERAGE, from);
  if (kept === undefined) return;
  memory.set(COVERAGE, `${folderKey({ ...at, folder: to })}/${generation}`, kept);
  memory.set(COVERAGE, from, null);
}

/** Reads remembered intervals; anything else than a list of number pairs is as good as nothing. */
export function parseIntervals(value: unknown): UidIntervals {
  if (!Array.isArray(value)) return [];
  let intervals: UidIntervals = [];
  for (const pair of value) {
    if (!Array.isArray(pair)) return [];
    const [lo, hi] = pair;
    if (!Number.isSafeInteger(lo) || !Number.isSafeInteger(hi)) return [];
    intervals = addInterval(intervals, { lo, hi });
  }
  return intervals;
}
