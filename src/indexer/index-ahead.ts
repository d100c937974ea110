import type { CommittedBatch } from '../archive/format/records.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { FreshMessage, IndexWriter, LogPosition } from '../catalog/indexing.ts';
import { BULK } from './indexer.ts';
import { IndexingRound, type RoundOptions } from './indexing-round.ts';

interface IndexAheadOptions extends Omit<RoundOptions, 'leaveDamaged'> {
  readonly store: Pick<IndexWriter, 'fresh' | 'index' | 'mode'>;
  readonly messages: Pick<Catalog['messages'], 'docidOf'>;
}

/**
 * Indexes messages in the order of the log while the log is still folded: the workers extract what is folded already,
 * and its bytes are read while their blocks are in memory. What it leaves, an ordinary round indexes after the fold:
 * messages whose bytes are damaged, for which the log may hold a repair further on, and those that are due again.
 */
export class IndexAhead {
  readonly #round: IndexingRound;
  #bulk = false;
  #last: LogPosition = { segment: 0, ordinal: 0 };

  constructor(private readonly options: IndexAheadOptions) {
    this.#round = new IndexingRound({ ...options, leaveDamaged: true }, ({ indexed }) => {
      if (this.#bulk || indexed < BULK) return;
      this.#bulk = true;
      options.store.mode('bulk');
    });
  }

  /**
   * Returns whether folding these batches removes a message that was indexed: the terms would go, but their bytes would
   * stay in the file. Only a purge that was cut off leaves such a message in the log.
   */
  isUndoneBy(batches: readonly CommittedBatch[]): boolean {
    return batches.some(({ records }) =>
      records.some(
        (record) =>
          record.kind === 'fact' &&
          record.fact.fact === 'purged' &&
          record.fact.again !== true &&
          this.options.messages.docidOf(record.fact.message) !== undefined,
      ),
    );
  }

  /** Starts the extraction of all messages that were folded since the last call. */
  async feed(): Promise<void> {
    await this.#round.feed(this.#fresh());
  }

  /** Waits for the last extractions and indexes them. */
  async finish(): Promise<void> {
    await this.#round.finish();
    if (this.#bulk) this.options.store.mode('steady');
  }

  /** Gives up what is in flight. */
  cancel(): void {
    this.#round.cancel();
  }

  *#fresh(): Iterable<FreshMessage> {
    for (const message of this.options.store.fresh(this.#last)) {
      this.#last = message.position;
      yield message;
    }
  }
}
