type Task = (signal: AbortSignal) => Promise<void>;

/**
 * Runs one task at a time; of those that come meanwhile only the last one runs, after it. So an answer never comes
 * after that of a later question, and nobody waits for answers that are of no use any more.
 */
export class Latest {
  #current: AbortController | undefined;
  #next: Task | undefined;

  /** True while a later task waits for the one that runs. */
  get isWaiting(): boolean {
    return this.#next !== undefined;
  }

  run(task: Task): void {
    this.#next = task;
    if (this.#current === undefined) void this.#work();
  }

  /** Aborts what runs, and forgets what waits. */
  stop(): void {
    this.#current?.abort();
    this.#current = undefined;
    this.#next = undefined;
  }

  async #work(): Promise<void> {
    const current = new AbortController();
    this.#current = current;
    try {
      for (let task = this.#take(); task !== undefined; task = this.#take()) {
        await task(current.signal);
        // What waits now belongs to a later worker.
        if (current.signal.aborted) return;
      }
    } finally {
      if (this.#current === current) this.#current = undefined;
    }
  }

  #take(): Task | undefined {
    const task = this.#next;
    this.#next = undefined;
    return task;
  }
}
