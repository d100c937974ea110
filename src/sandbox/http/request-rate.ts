import type { RateBlock } from '../settings.ts';
import { AddressBlocks } from './address-blocks.ts';
import { RateWindow } from './rate-window.ts';

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
