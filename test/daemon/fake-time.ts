import type { DaemonClock } from '../../src/daemon/ports.ts';

/** A wall clock and one that never goes back; both move only on request, and together unless the machine sleeps. */
export class FakeTime implements DaemonClock {
  #wall: number;
  #monotonic = 0;
  #timers: { readonly at: number; readonly call: () => void }[] = [];

  constructor(wall = Date.UTC(2026, 10, 20, 10, 0, 30)) {
    this.#wall = wall;
  }

  now = (): number => this.#wall;

  monotonic = (): number => this.#monotonic;

  after = (ms: number, call: () => void): (() => void) => {
    const timer = { at: this.#monotonic + ms, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  /** Lets time pass, timer by timer; whatever they set off is done before the next one. */
  async pass(ms: number): Promise<void> {
    const until = this.#monotonic + ms;
    for (;;) {
      await settled();
      const next = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      const step = Math.max(0, next.at - this.#monotonic);
      this.#monotonic += step;
      this.#wall += step;
      next.call();
    }
    this.#wall += until - this.#monotonic;
    this.#monotonic = until;
    await settled();
  }

  /** The machine sleeps: the wall clock has moved when it wakes, and timers have not. */
  sleep(ms: number): void {
    this.#wall += ms;
  }
}

/** Resolves when promises that can settle without time or IO have. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}
