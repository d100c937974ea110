import type { DaemonLog } from './daemon-log.ts';

export interface WatchTiming {
  readonly after: (ms: number, act: () => void) => () => void;
  readonly log: DaemonLog;
}

/** Something that the daemon checks now and then, one round at a time, until it is closed. */
export abstract class PeriodicWatch {
  /** Aborts what is being asked once the watch is closed. */
  protected readonly stopping: AbortSignal;
  readonly #controller = new AbortController();
  #looking: Promise<void> = Promise.resolve();
  #cancel: () => void = () => {};

  /** @param failed what the log says of a round that fails unexpectedly */
  constructor(
    private readonly timing: WatchTiming,
    private readonly everyMs: number,
    private readonly failed: string,
  ) {
    this.stopping = this.#controller.signal;
  }

  protected abstract round(): Promise<void>;

  /** Looks now, and from now on after every interval. */
  look(): void {
    if (this.stopping.aborted) return;
    const { after, log } = this.timing;
    this.#cancel();
    this.#cancel = after(this.everyMs, () => this.look());
    this.#looking = this.#looking
      .then(() => this.round())
      .catch((error: unknown) => log.fail('error', this.failed, error));
  }

  /** Resolves when nothing is being asked. */
  async idle(): Promise<void> {
    await this.#looking;
  }

  async close(): Promise<void> {
    this.#cancel();
    this.#controller.abort();
    await this.#looking;
  }
}
