import { RateWindow } from '../http/rate-window.ts';

/** What a request is told about the limit, whether it may go on or not. */
export interface RateAnswer {
  readonly allowed: boolean;
  /** Nothing is answered to this address for a while, since it did not heed the limit. */
  readonly blocked: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until a request is allowed again; 0 where one is allowed now. */
  readonly retryAfter: number;
}

export interface Block {
  /** Refusals in a row, with no request allowed in between. */
  readonly refusals: number;
  readonly forMs: number;
}

interface Offender {
  refusals: number;
  blockedUntil: number;
}

/** Requests of an address in any minute, and the block of those that go on in spite of refusals. */
export class RequestRate {
  readonly #window: RateWindow;
  readonly #block: Block | null;
  readonly #offenders = new Map<string, Offender>();

  constructor(perMinute: number, block: Block | null) {
    this.#window = new RateWindow(perMinute);
    this.#block = block;
  }

  /** Counts a request. A blocked one does not make the block longer. */
  take(address: string, now: number): RateAnswer {
    const { limit } = this.#window;
    const offender = this.#offenders.get(address);
    if (offender !== undefined && offender.blockedUntil > now) {
      const retryAfter = Math.ceil((offender.blockedUntil - now) / 1000);
      return { allowed: false, blocked: true, limit, remaining: 0, retryAfter };
    }
    const decision = this.#window.take(address, now);
    if (decision.allowed) {
      this.#offenders.delete(address);
      const remaining = this.#window.remaining(address, now);
      const retryAfter = remaining > 0 ? 0 : this.#window.freeInSeconds(address, now);
      return { allowed: true, blocked: false, limit, remaining, retryAfter };
    }
    const blockedFor = this.#refused(address, now);
    const retryAfter = blockedFor ?? decision.retryAfterSeconds;
    return { allowed: false, blocked: blockedFor !== null, limit, remaining: 0, retryAfter };
  }

  /** @returns the seconds of the block this refusal brought about, or null */
  #refused(address: string, now: number): number | null {
    if (this.#block === null) return null;
    const offender = this.#offenders.get(address) ?? { refusals: 0, blockedUntil: 0 };
    offender.refusals += 1;
    this.#offenders.set(address, offender);
    if (offender.refusals < this.#block.refusals) return null;
    offender.refusals = 0;
    offender.blockedUntil = now + this.#block.forMs;
    return Math.ceil(this.#block.forMs / 1000);
  }
}
