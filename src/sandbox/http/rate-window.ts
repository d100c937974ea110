export type RateDecision =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly retryAfterSeconds: number };

/** At most `limit` requests in any 60 seconds, per key (a token, an address): an exact sliding window. */
export class RateWindow {
  readonly limit: number;
  readonly #windowMs: number;
  readonly #rings = new Map<string, { readonly times: Float64Array; next: number }>();

  constructor(limit: number, windowMs = 60_000) {
    this.limit = limit;
    this.#windowMs = windowMs;
  }

  /** Counts a request, unless the window is full. */
  take(key: string, now: number): RateDecision {
    let ring = this.#rings.get(key);
    if (ring === undefined) {
      ring = { times: new Float64Array(this.limit).fill(Number.NEGATIVE_INFINITY), next: 0 };
      this.#rings.set(key, ring);
    }
    const retryAfterSeconds = this.freeInSeconds(key, now);
    if (retryAfterSeconds > 0) return { allowed: false, retryAfterSeconds };
    ring.times[ring.next] = now;
    ring.next = (ring.next + 1) % this.limit;
    return { allowed: true };
  }

  /** Seconds until a request would be allowed; 0 for now. */
  freeInSeconds(key: string, now: number): number {
    const ring = this.#rings.get(key);
    // The slot to be overwritten next holds the time of the request `limit` requests ago.
    const oldest = ring?.times[ring.next] ?? Number.NEGATIVE_INFINITY;
    return Math.max(0, Math.ceil((oldest + this.#windowMs - now) / 1000));
  }

  /** Requests that would be allowed right now. Looks at the whole window: not for large limits on a hot path. */
  remaining(key: string, now: number): number {
    const times = this.#rings.get(key)?.times;
    if (times === undefined) return this.limit;
    let free = 0;
    for (const time of times) if (time + this.#windowMs <= now) free += 1;
    return free;
  }
}
