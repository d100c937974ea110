import { setImmediate as nextTurn } from 'node:timers/promises';

/** Lets a few at a time do what costs memory or time; the others wait, in the order in which they came. */
export class Turns {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(most: number) {
    this.#free = most;
  }

  /**
   * Runs `act` when it has its turn. Before that, requests that have come are heard of, and so are those that were left:
   * what nobody waits for any more is not begun.
   *
   * @param signal of the request that the work is for
   * @throws the signal's reason where it is aborted before `act` began
   */
  async take<T>(act: () => T | Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    try {
      if (signal !== undefined) {
        await nextTurn();
        signal.throwIfAborted();
      }
      return await act();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#free += 1;
      else next();
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(begin);
        reject(signal?.reason);
      };
      const begin = (): void => {
        this.#waiting.delete(begin);
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      if (signal?.aborted === true) reject(signal.reason);
      else this.#waiting.add(begin);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }
}
