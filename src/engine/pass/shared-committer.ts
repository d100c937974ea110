import { Committer } from '../../sync/apply/committer.ts';

type Deps = Omit<ConstructorParameters<typeof Committer>[0], 'onCommitted'>;

/**
 * One committer for concurrent passes: what they learn at the same time becomes durable together, and a message that
 * two of them find is stored once.
 */
export class SharedCommitter {
  readonly #listeners = new Set<() => void>();
  #committer: Committer;

  constructor(private readonly deps: Deps) {
    this.#committer = this.#fresh();
  }

  /** The committer for one pass; `onCommitted` is called until `release`. */
  open(onCommitted: () => void): Committer {
    this.#listeners.add(onCommitted);
    return this.#committer;
  }

  release(onCommitted: () => void): void {
    this.#listeners.delete(onCommitted);
  }

  /** A committer that has failed stays so: what it had collected is fetched again by passes with another one. */
  renew(): void {
    this.#committer = this.#fresh();
  }

  #fresh(): Committer {
    return new Committer({
      ...this.deps,
      onCommitted: () => {
        for (const listener of this.#listeners) listener();
      },
    });
  }
}
