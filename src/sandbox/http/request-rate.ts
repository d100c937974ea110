import type { RateBlock } from '../settings.ts';

interface Offender {
  refusals: number;
  blockedUntil: number;
}

/** Addresses that kept sending requests in spite of a rate limit. Without a block, none is ever blocked. */
export class AddressBlocks {
  readonly #offenders = new Map<string, Offender>();

  constructor(private readonly block: RateBlock | null) {}

  /** Returns the seconds that a block has left, or 0. Asking does not prolong it. */
  remaining(address: string, now: number): number {
    const until = this.#offenders.get(address)?.blockedUntil ?? 0;
    return Math.max(0, Math.ceil((until - now) / 1000));
  }

  /** Forgets the refusals of an address, of which a request was allowed. */
  allowed(address: string): void {
    this.#offenders.delete(address);
  }

  /** Counts a refusal. @returns the seconds of the block that it starts, or 0 */
  refused(address: string, now: number): number {
    if (this.block === null) return 0;
    const offender = this.#offenders.get(address) ?? { refusals: 0, blockedUntil: 0 };
    offender.refusals += 1;
    this.#offenders.set(address, offender);
    if (offender.refusals < this.block.refusals) return 0;
    offender.refusals = 0;
    offender.blockedUntil = now + this.block.forMs;
    return Math.ceil(this.block.forMs / 1000);
  }
}

export type RateDecision =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly retryAfterSeconds: number };

/** At most `limit` requests in any 60 seconds, per key (a token, an address): an exact sliding window. */
export class RateWindow {
  readonly #rings = new Map<string, { readonly times: Float64Array; next: number }>();

  constructor(
    readonly limit: number,
    private readonly windowMs = 60_000,
  ) {}

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
    return Math.max(0, Math.ceil((oldest + this.windowMs - now) / 1000));
  }

  /** Requests that would be allowed right now. Looks at the whole window: not for large limits on a hot path. */
  remaining(key: string, now: number): number {
    const times = this.#rings.get(key)?.times;
    if (times === undefined) return this.limit;
    let free = 0;
    for (const time of times) if (time + this.windowMs <= now) free += 1;
    return free;
  }
}

/** What an answer says about the limit, whether the request is allowed or not. */
export interface RateAnswer {
  readonly allowed: boolean;
  /** Nothing is answered to this address for a while, since it did not heed the limit. */
  readonly blocked: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until a request is allowed again; 0 where one is allowed now. */
  readonly retryAfter: number;
}

/** Requests of an address in any minute, and the block of those that go on in spite of refusals. */
export class RequestRate {
  readonly #window: RateWindow;
  readonly #blocks: AddressBlocks;

  constructor(perMinute: number, block: RateBlock | null) {
    this.#window = new RateWindow(perMinute);
    this.#blocks = new AddressBlocks(block);
  }

  /** Counts a request. A blocked one does not make the block longer. */
  take(address: string, now: number): RateAnswer {
    const { limit } = this.#window;
    const blocked = this.#blocks.remaining(address, now);
    if (blocked > 0) {
      return { allowed: false, blocked: true, limit, remaining: 0, retryAfter: blocked };
    }
    const decision = this.#window.take(address, now);
    if (decision.allowed) {
      this.#blocks.allowed(address);
      const remaining = this.#window.remaining(address, now);
      const retryAfter = remaining > 0 ? 0 : this.#window.freeInSeconds(address, now);
      return { allowed: true, blocked: false, limit, remaining, retryAfter };
    }
    const started = this.#blocks.refused(address, now);
    const retryAfter = started > 0 ? started : decision.retryAfterSeconds;
    return { allowed: false, blocked: started > 0, limit, remaining: 0, retryAfter };
  }
}
