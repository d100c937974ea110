import type { RateBlock } from '../settings.ts';

interface Offender {
  refusals: number;
  blockedUntil: number;
}

/** Addresses that kept sending requests in spite of a rate limit. Without a block, none is ever blocked. */
export class AddressBlocks {
  readonly #block: RateBlock | null;
  readonly #offenders = new Map<string, Offender>();

  constructor(block: RateBlock | null) {
    this.#block = block;
  }

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
    if (this.#block === null) return 0;
    const offender = this.#offenders.get(address) ?? { refusals: 0, blockedUntil: 0 };
    offender.refusals += 1;
    this.#offenders.set(address, offender);
    if (offender.refusals < this.#block.refusals) return 0;
    offender.refusals = 0;
    offender.blockedUntil = now + this.#block.forMs;
    return Math.ceil(this.#block.forMs / 1000);
  }
}
