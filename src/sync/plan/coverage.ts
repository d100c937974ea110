import type { Listing } from '../../mail/words.ts';
import { addInterval, type UidInterval, type UidIntervals } from './uid-intervals.ts';

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
