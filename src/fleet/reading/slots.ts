/** A number of places, and a queue for them. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(
    places: number,
    private readonly mostWaiting: number,
  ) {
    this.#free = places;
  }

  /**
   * Resolves with a function that gives the place back, in the order in which places were asked for; with undefined if too
   * many wait, or if the signal was aborted first.
   */
  async take(signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    if (this.#free > 0) {
      this.#free -= 1;
      return this.#place();
    }
    if (this.#waiting.length >= this.mostWaiting) return undefined;
    const isGiven = await new Promise<boolean>((resolve) => {
      const give = (): void => resolve(true);
      this.#waiting.push(give);
      signal.addEventListener('abort', () => {
        const at = this.#waiting.indexOf(give);
        if (at >= 0) this.#waiting.splice(at, 1);
        // Without effect if the place was given before.
        resolve(false);
      });
    });
    return isGiven ? this.#place() : undefined;
  }

  #place(): () => void {
    let isGiven = false;
    return () => {
      if (!isGiven) this.#giveBack();
      isGiven = true;
    };
  }

  #giveBack(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
