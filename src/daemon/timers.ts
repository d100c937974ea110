import type { DaemonClock } from './ports.ts';

/** Calls that are to come, and can all be taken back. */
export class Timers {
  readonly #clock: Pick<DaemonClock, 'after'>;
  readonly #cancels = new Set<() => void>();

  constructor(clock: Pick<DaemonClock, 'after'>) {
    this.#clock = clock;
  }

  after(ms: number, act: () => void): void {
    const cancel = this.#clock.after(ms, () => {
      this.#cancels.delete(cancel);
      act();
    });
    this.#cancels.add(cancel);
  }

  cancel(): void {
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}
