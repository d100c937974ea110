import type { Clock } from '../../../src/core/concurrency.ts';

/** Limits of time that a test chooses are not shorter; everything shorter is waiting, which takes no time here. */
const LIMIT_MS = 1_000_000_000;
export const LIMITS = { connect: LIMIT_MS, answer: LIMIT_MS, idle: LIMIT_MS };

/** A clock with which waiting takes no time, and limits of time pass when the test says so. */
export class ImpatientClock implements Clock {
  /** All waits, in milliseconds. */
  waited = 0;
  readonly #limits = new Set<() => void>();

  now(): number {
    return Date.now();
  }

  after(ms: number, call: () => void): () => void {
    if (ms >= LIMIT_MS) {
      this.#limits.add(call);
      return () => this.#limits.delete(call);
    }
    this.waited += ms;
    const soon = setImmediate(call);
    return () => clearImmediate(soon);
  }

  /** Lets all limits of time pass that are running. */
  expire(): void {
    for (const call of [...this.#limits]) call();
  }
}
