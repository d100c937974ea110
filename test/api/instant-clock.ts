import type { Clock } from '../../src/core/concurrency.ts';

/** A clock on which every wait is over at once: time jumps to its end. The waits are kept for looking at. */
export class InstantClock implements Clock {
  #now = 1_700_000_000_000;
  readonly waits: number[] = [];

  now = (): number => this.#now;

  after = (ms: number, call: () => void): (() => void) => {
    this.waits.push(Math.round(ms));
    const timer = setImmediate(() => {
      this.#now += ms;
      call();
    });
    return () => clearImmediate(timer);
  };

  advance(ms: number): void {
    this.#now += ms;
  }
}
