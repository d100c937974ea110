import type { DaemonClock } from '../daemon/ports.ts';
import { AT_ONCE } from './in-turns.ts';
import { pause } from './pause.ts';

/**
 * When a worker looks for archives to claim: at an interval, and at once where all it may open at a time were being opened
 * and half of them are open. With the interval alone, the archives of a dead node are taken over at two a second.
 */
export class ClaimPace {
  #sooner = new AbortController();
  #isFull = false;

  /**
   * @param opening archives that are being opened now
   * @returns how many more may be
   */
  roomWith(opening: number): number {
    this.#isFull = opening >= AT_ONCE;
    return Math.max(0, AT_ONCE - opening);
  }

  /** Notes that one is open, or cannot be; `opening` are the others. */
  opened(opening: number): void {
    if (this.#isFull && opening <= AT_ONCE / 2) this.#sooner.abort();
  }

  /** Resolves when it is time to look again, or when the signal is aborted. */
  async next(clock: Pick<DaemonClock, 'after'>, ms: number, signal: AbortSignal): Promise<void> {
    await pause(clock, ms, AbortSignal.any([signal, this.#sooner.signal]));
    this.#sooner = new AbortController();
    this.#isFull = false;
  }
}
