/** Segments are sealed when nothing goes on, or after this long. */
const TIDY_EVERY_MS = 600_000;

/** When the archive is tidied: whenever there is something to tidy and time for it, one round at a time. */
export class Tidying {
  readonly #tidy: () => Promise<boolean>;
  readonly #monotonic: () => number;
  #untidy = true;
  #underway = false;
  #tidiedAt: number;

  /** @param tidy does some of it, and says whether there is more to do */
  constructor(tidy: () => Promise<boolean>, monotonic: () => number) {
    this.#tidy = tidy;
    this.#monotonic = monotonic;
    this.#tidiedAt = monotonic();
  }

  /** Something was added. */
  note(): void {
    this.#untidy = true;
  }

  get isOverdue(): boolean {
    return this.#monotonic() - this.#tidiedAt > TIDY_EVERY_MS;
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
      const more = await this.#tidy();
      if (more) this.#untidy = true;
      return more;
    } finally {
      this.#underway = false;
      this.#tidiedAt = this.#monotonic();
    }
  }
}
