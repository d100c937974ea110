import { setImmediate as nextTurn } from 'node:timers/promises';

export interface Clock {
  /** Milliseconds since the epoch, so that stored times remain valid in later runs. */
  now(): number;
  /** Calls back once, after at least `ms`. The returned function cancels the call. */
  after(ms: number, call: () => void): () => void;
}

/** The longest delay that Node's timers accept: about 24.8 days. */
const MAX_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, Math.min(ms, MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/**
 * Lanes in order of priority: requests that a user is waiting for, new mail, the backlog, full syncs. Within a lane,
 * keys (mailboxes) take turns, so that a large mailbox does not delay a small one.
 */
const LANES = ['hint', 'new-mail', 'backlog', 'sweep'] as const;
export type Lane = (typeof LANES)[number];

/** One turn in this many goes to the lowest-priority waiting lane, so that no lane starves. */
const TURNS_TO_LOWEST = 16;

export interface Waiting<T> {
  readonly lane: Lane;
  readonly key: string;
  readonly item: T;
}

export class WaitQueue<T> {
  readonly #lanes = new Map(LANES.map((lane) => [lane, new Map<string, Waiting<T>[]>()]));
  #size = 0;
  #turns = 0;

  get size(): number {
    return this.#size;
  }

  add(waiting: Waiting<T>): void {
    const lane = this.#lanes.get(waiting.lane);
    const line = lane?.get(waiting.key);
    if (line === undefined) lane?.set(waiting.key, [waiting]);
    else line.push(waiting);
    this.#size += 1;
  }

  remove(waiting: Waiting<T>): void {
    const lane = this.#lanes.get(waiting.lane);
    const line = lane?.get(waiting.key);
    const at = line?.indexOf(waiting) ?? -1;
    if (line === undefined || at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) lane?.delete(waiting.key);
    this.#size -= 1;
  }

  next(): Waiting<T> | undefined {
    this.#turns += 1;
    const lowestFirst = this.#turns % TURNS_TO_LOWEST === 0;
    const lanes = [...this.#lanes.values()];
    for (const lane of lowestFirst ? lanes.reverse() : lanes) {
      const [entry] = lane;
      if (entry === undefined) continue;
      const [key, line] = entry;
      const first = line.shift();
      lane.delete(key);
      // Moves the key to the end.
      if (line.length > 0) lane.set(key, line);
      this.#size -= 1;
      return first;
    }
    return undefined;
  }
}

/** Each signal gets a single listener, because thousands of requests share one run's signal. */
const waiting = new WeakMap<AbortSignal, ReturnType<typeof listen>>();

/**
 * Calls back when the signal aborts. The returned function cancels the call. Check `signal.throwIfAborted()` first: a
 * signal that has already aborted never calls back.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const { calls, listener } = waiting.get(signal) ?? listen(signal);
  // A wrapper per caller, because a function can be registered more than once.
  const entry = () => call();
  calls.add(entry);
  return () => {
    calls.delete(entry);
    if (calls.size > 0 || waiting.get(signal)?.calls !== calls) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

function listen(signal: AbortSignal) {
  const calls = new Set<() => void>();
  const listener = (): void => {
    waiting.delete(signal);
    for (const call of [...calls]) call();
  };
  const entry = { calls, listener };
  waiting.set(signal, entry);
  signal.addEventListener('abort', listener, { once: true });
  return entry;
}

/**
 * Returns a controller that aborts with the signal or independently. Call `release` to detach it from the signal.
 *
 * Replaces `AbortSignal.any`: in Node.js 22 and 24, each call leaks 200 to 350 bytes on its input signals. In Node.js
 * 26, a result with a listener still lives as long as its inputs. Each sync run needs a controller, and its signal
 * lives as long as the process.
 */
export function linkedController(signal: AbortSignal): {
  readonly controller: AbortController;
  readonly release: () => void;
} {
  const controller = new AbortController();
  if (signal.aborted) {
    controller.abort(signal.reason);
    return { controller, release: () => {} };
  }
  return { controller, release: onAbort(signal, () => controller.abort(signal.reason)) };
}

/** @throws the signal's reason if it aborts */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    let release = () => {};
    const cancel = clock.after(ms, () => {
      release();
      resolve();
    });
    if (signal !== undefined) {
      release = onAbort(signal, () => {
        cancel();
        reject(signal.reason);
      });
    }
  });
}

/** Limits concurrent work that uses a lot of memory or time. Excess work queues in order of arrival. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(capacity: number) {
    this.#free = capacity;
  }

  /**
   * Runs `act` when its turn comes. If given a signal, yields to the event loop first, so that abandoned work never
   * starts.
   * @throws the signal's reason if it aborts before `act` starts
   */
  async run<T>(act: () => T | Promise<T>, signal?: AbortSignal): Promise<T> {
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

  async #turn(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const begin = (): void => {
      this.#waiting.delete(begin);
      release?.();
      resolve();
    };
    const release =
      signal &&
      onAbort(signal, () => {
        this.#waiting.delete(begin);
        reject(signal.reason);
      });
    this.#waiting.add(begin);
    await promise;
  }
}

/** Runs `act` for each item in order, `width` at a time. Throws the first failure once all running calls settle. */
export async function forEachConcurrent<T>(
  items: Iterable<T>,
  width: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) {
      if (failures.length > 0) return;
      try {
        await act(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  if (failures.length > 0) throw failures[0];
}
