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
