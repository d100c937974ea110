/** Errands that may take hours, one after the other, and ask nothing of the origin. */
export class Chores {
  readonly #signal: AbortSignal;
  readonly #failed: (error: unknown) => void;
  #last: Promise<void> = Promise.resolve();

  /** @param signal once aborted, none begins @param failed called with what one throws before that */
  constructor(signal: AbortSignal, failed: (error: unknown) => void) {
    this.#signal = signal;
    this.#failed = failed;
  }

  add(act: (signal: AbortSignal) => Promise<void>): void {
    this.#last = this.#last
      .then(() => (this.#signal.aborted ? undefined : act(this.#signal)))
      // What one failed of is no matter of the next.
      .catch((error: unknown) => {
        if (!this.#signal.aborted) this.#failed(error);
      });
  }

  /** Resolves when those that were added are over. */
  over(): Promise<void> {
    return this.#last;
  }
}
