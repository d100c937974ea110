/**
 * Source fetches of one account: some run, the rest wait in the order in which they came. A fetch costs this queue a
 * few microseconds, because a first sync puts every message of a mailbox through it.
 */
export class FetchQueue {
  #waiting: (() => Promise<void>)[] = [];
  /** Of `#waiting`, those that have started: cut off from time to time instead of shifting each. */
  #taken = 0;
  #running = 0;
  #forRoom: (() => void)[] = [];
  #forIdle: (() => void)[] = [];

  /**
   * @param concurrency fetches that run at a time
   * @param ahead fetches that may wait before `room` does
   */
  constructor(
    private readonly concurrency: number,
    private readonly ahead: number,
  ) {}

  /** Adds a fetch, which starts as soon as fewer than `concurrency` run. It must not reject. */
  add(fetch: () => Promise<void>): void {
    if (this.#running < this.concurrency) this.#start(fetch);
    else this.#waiting.push(fetch);
  }

  /** Resolves when another fetch may be added: at once, or else when half of those that wait have started. */
  async room(): Promise<void> {
    if (this.#size < this.ahead) return;
    await new Promise<void>((resolve) => this.#forRoom.push(resolve));
  }

  /** Resolves when none runs and none waits. */
  async onIdle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#forIdle.push(resolve));
  }

  get #size(): number {
    return this.#waiting.length - this.#taken;
  }

  #start(fetch: () => Promise<void>): void {
    this.#running += 1;
    void fetch().finally(() => {
      this.#running -= 1;
      const next = this.#next();
      if (next !== undefined) this.#start(next);
      if (this.#size <= this.ahead / 2) wake(this.#forRoom);
      if (this.#running === 0) wake(this.#forIdle);
    });
  }

  #next(): (() => Promise<void>) | undefined {
    const next = this.#waiting[this.#taken];
    if (next === undefined) return undefined;
    this.#taken += 1;
    if (this.#taken >= this.ahead) {
      this.#waiting = this.#waiting.slice(this.#taken);
      this.#taken = 0;
    }
    return next;
  }
}

function wake(waiting: (() => void)[]): void {
  for (const resolve of waiting.splice(0)) resolve();
}
