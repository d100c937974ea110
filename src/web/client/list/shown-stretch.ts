/** The time that the rows in view span: from the first of them to the last. Milliseconds since the epoch. */
export interface Stretch {
  readonly top: number;
  readonly bottom: number;
}

/** Hands the stretch in view on with every frame of a scroll, past the components: they are made again at rest only. */
export class ShownStretch {
  #now: Stretch | null = null;
  readonly #listeners = new Set<(stretch: Stretch) => void>();

  get now(): Stretch | null {
    return this.#now;
  }

  set(stretch: Stretch): void {
    this.#now = stretch;
    for (const changed of this.#listeners) changed(stretch);
  }

  /** Calls a function with each stretch; returns one that ends that. */
  subscribe(changed: (stretch: Stretch) => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }
}
