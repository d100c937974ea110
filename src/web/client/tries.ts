/** Since when the server cannot be reached, and when it is tried again. Milliseconds since the epoch. */
export interface Lost {
  readonly since: number;
  readonly retryAt: number;
}

const LONGEST_WAIT_MS = 30_000;

/** Tries again to reach a server that is away, after 1, 2, 4 and at most 30 seconds. */
export class Tries {
  #failed = 0;
  #timer: number | undefined;

  constructor(private readonly again: () => void) {}

  succeeded(): void {
    this.#failed = 0;
  }

  /** Takes note of a request that did not reach the server. Several fail at once: that is one try. */
  failed(lost: Lost | null): Lost {
    const now = Date.now();
    if (lost !== null && now < lost.retryAt) return lost;
    const wait = Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** this.#failed);
    this.#failed += 1;
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(this.again, wait);
    return { since: lost?.since ?? now, retryAt: now + wait };
  }
}
