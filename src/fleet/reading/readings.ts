import type { SegmentStore } from '../../archive/segment-files.ts';

/** An archive that is being read. */
export interface Reading {
  readonly dataDir: string;
  readonly segments: Pick<SegmentStore, 'fetch'>;
  /** Aborted when the archive is about to be closed. */
  readonly ended: AbortSignal;
  /** To be called when nothing reads any more. */
  readonly done: () => void;
}

/** Those who read one archive. */
export class Readings {
  readonly #ending = new AbortController();
  readonly #under = new Set<Promise<void>>();

  get areAny(): boolean {
    return this.#under.size > 0;
  }

  /** Notes that somebody reads. */
  begin({ dataDir, segments }: Pick<Reading, 'dataDir' | 'segments'>): Reading {
    let done = (): void => undefined;
    const over = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.#under.add(over);
    void over.then(() => this.#under.delete(over));
    return { dataDir, segments, ended: this.#ending.signal, done };
  }

  /** Ends whatever reads, and resolves when it has. */
  async end(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#under);
  }
}
