/** Errands that may take hours, one after the other, and ask nothing of the origin. */
export class Chores {
  #last: Promise<void> = Promise.resolve();

  /** @param signal once aborted, none begins @param failed called with what one throws before that */
  constructor(
    private readonly signal: AbortSignal,
    private readonly failed: (error: unknown) => void,
  ) {}

  add(act: (signal: AbortSignal) => Promise<void>): void {
    this.#last = this.#last
      .then(() => (this.signal.aborted ? undefined : act(this.signal)))
      // What one failed of is no matter of the next.
      .catch((error: unknown) => {
        if (!this.signal.aborted) this.failed(error);
      });
  }

  /** Resolves when those that were added are over. */
  over(): Promise<void> {
    return this.#last;
  }
}

/** Several share something, or one has it alone; whoever waits to be alone goes before those who come later. */
export class SharedTurn {
  readonly #sharing = new Set<Promise<unknown>>();
  #alone: Promise<void> | undefined;

  /** Calls `act` as soon as nobody is alone. Throws what it throws. */
  async share<T>(act: () => Promise<T>): Promise<T> {
    while (this.#alone !== undefined) await this.#alone;
    const turn = act();
    this.#sharing.add(turn);
    try {
      return await turn;
    } finally {
      this.#sharing.delete(turn);
    }
  }

  /** Calls `act` when all who share have ended, and lets nobody begin until it is over. Throws what it throws. */
  async alone<T>(act: () => Promise<T>): Promise<T> {
    while (this.#alone !== undefined) await this.#alone;
    let over: () => void = () => {};
    this.#alone = new Promise((resolve) => {
      over = resolve;
    });
    try {
      await Promise.allSettled(this.#sharing);
      return await act();
    } finally {
      this.#alone = undefined;
      over();
    }
  }
}

/** Segments are sealed when the daemon is idle, or after this long. */
const TIDY_EVERY_MS = 600_000;

/** When the archive is tidied: whenever there is something to tidy and time for it, one round at a time. */
export class Tidying {
  #untidy = true;
  #underway = false;
  #tidiedAt: number;

  /** @param tidy does some of it, and says whether there is more to do */
  constructor(
    private readonly tidy: () => Promise<boolean>,
    private readonly monotonic: () => number,
  ) {
    this.#tidiedAt = monotonic();
  }

  /** Something was added. */
  note(): void {
    this.#untidy = true;
  }

  get isOverdue(): boolean {
    return this.monotonic() - this.#tidiedAt > TIDY_EVERY_MS;
  }

  /** A round, or undefined where there is nothing to tidy or a round is under way. It says whether there is more to do. */
  begin(): Promise<boolean> | undefined {
    if (!this.#untidy || this.#underway) return undefined;
    this.#untidy = false;
    this.#underway = true;
    return this.#round();
  }

  async #round(): Promise<boolean> {
    try {
      const more = await this.tidy();
      if (more) this.#untidy = true;
      return more;
    } finally {
      this.#underway = false;
      this.#tidiedAt = this.monotonic();
    }
  }
}
