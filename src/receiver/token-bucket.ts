export interface Rate {
  /** How many may come at once. */
  readonly burst: number;
  readonly perSecond: number;
}

/** Lets so many through, and refills with time. A clock that goes back refills nothing and breaks nothing. */
export class TokenBucket {
  readonly #rate: Rate;
  #tokens: number;
  #at: number;

  constructor(rate: Rate, now: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#at = now;
  }

  /** Takes one; the milliseconds until there is one again when there is none, else 0. */
  take(now: number): number {
    const { burst, perSecond } = this.#rate;
    const passed = Math.max(0, now - this.#at) / 1_000;
    this.#tokens = Math.min(burst, this.#tokens + passed * perSecond);
    this.#at = now;
    if (this.#tokens < 1) return Math.ceil(((1 - this.#tokens) / perSecond) * 1_000);
    this.#tokens -= 1;
    return 0;
  }
}
