import { setImmediate as nextTurn } from 'node:timers/promises';

/** Time as an argument, so that tests never wait. */
export interface Clock {
  /** Milliseconds since the epoch: what is remembered between runs is counted in it. */
  now(): number;
  /** Calls back once after at least `ms`; the returned function takes it back. */
  after(ms: number, call: () => void): () => void;
}

/** Node's timers take no longer delays: about 24.8 days. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/**
 * Who is next. Lanes go by rank: what a person waits for, then new mail, then the backlog, then sweeps. Within
 * a lane the keys (mailboxes) take turns, so that a large mailbox does not hold up a small one, and within a key
 * it is first come, first served.
 */
const LANES = ['hint', 'new-mail', 'backlog', 'sweep'] as const;
export type Lane = (typeof LANES)[number];

/** Every so many turns the lowest lane with anyone in it is served, so that none waits for ever. */
const TURNS_TO_LOWEST = 16;

/** Someone waiting in a lane. */
export interface Waiting<T> {
  readonly lane: Lane;
  readonly key: string;
  readonly item: T;
}

export class WaitingLines<T> {
  readonly #lanes: readonly Map<string, Waiting<T>[]>[] = LANES.map(() => new Map());
  #size = 0;
  #turns = 0;

  get size(): number {
    return this.#size;
  }

  add(waiting: Waiting<T>): void {
    const lane = this.#lane(waiting.lane);
    const line = lane.get(waiting.key);
    if (line === undefined) lane.set(waiting.key, [waiting]);
    else line.push(waiting);
    this.#size += 1;
  }

  /** Takes one out of its line wherever it stands. */
  remove(waiting: Waiting<T>): void {
    const lane = this.#lane(waiting.lane);
    const line = lane.get(waiting.key);
    const at = line?.indexOf(waiting) ?? -1;
    if (line === undefined || at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) lane.delete(waiting.key);
    this.#size -= 1;
  }

  next(): Waiting<T> | undefined {
    this.#turns += 1;
    const lowestFirst = this.#turns % TURNS_TO_LOWEST === 0;
    for (let i = 0; i < this.#lanes.length; i += 1) {
      const lane = this.#lanes[lowestFirst ? this.#lanes.length - 1 - i : i];
      const entry = lane?.entries().next();
      if (lane === undefined || entry === undefined || entry.done === true) continue;
      const [key, line] = entry.value;
      const first = line.shift();
      lane.delete(key);
      // To the back of the round, behind the other keys.
      if (line.length > 0) lane.set(key, line);
      if (first === undefined) continue;
      this.#size -= 1;
      return first;
    }
    return undefined;
  }

  #lane(lane: Lane): Map<string, Waiting<T>[]> {
    const found = this.#lanes[LANES.indexOf(lane)];
    if (found === undefined) throw new RangeError(`no lane ${lane}`);
    return found;
  }
}

/** One listener a signal, however many wait on it: thousands of requests share the signal of one run. */
const waiting = new WeakMap<AbortSignal, AbortListener>();

interface AbortListener {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/**
 * Calls back when the signal aborts; the returned function takes it back, and leaves nothing on the signal where
 * nobody waits any more. The signal must not have aborted yet: callers check `signal.throwIfAborted()` first.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const { calls, listener } = waiting.get(signal) ?? listen(signal);
  // A wrapper of its own for each caller: the same function may wait twice.
  const entry = () => call();
  calls.add(entry);
  return () => {
    calls.delete(entry);
    if (calls.size > 0 || waiting.get(signal)?.calls !== calls) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

function listen(signal: AbortSignal): AbortListener {
  const calls = new Set<() => void>();
  const listener = (): void => {
    waiting.delete(signal);
    for (const each of [...calls]) each();
  };
  const made = { calls, listener };
  waiting.set(signal, made);
  signal.addEventListener('abort', listener, { once: true });
  return made;
}

/**
 * A controller that aborts with the signal, and on its own account. `release` lets go of the signal; it has to be called.
 *
 * Instead of `AbortSignal.any`: in Node.js 22 and 24 each call leaves 200 to 350 bytes with the signals it was given, even
 * when its result has no listener any more, and in Node.js 26 too a result with a listener lives as long as they do. Here
 * every pass needs a new controller, and the signal lives as long as the process.
 */
export function following(signal: AbortSignal): {
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

/** Waits for a number of milliseconds. @throws the signal's reason when it aborts */
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

/** Lets a few at a time do what costs memory or time; the others wait, in the order in which they came. */
export class Semaphore {
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

/**
 * Does something for each item, several at a time, in their order. The first failure is thrown once what had begun has
 * ended; nothing new begins after it.
 */
export async function severalAtOnce<T>(
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
