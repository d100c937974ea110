import { hasCode } from '../../errors/mailkeep-error.ts';
import { type FileLayer, writeAll } from '../files/file-layer.ts';
import { SEGMENT_BYTES } from '../format/layout.ts';
import type { CommittedBatch } from '../format/records.ts';
import type { ChainState } from '../read/segment-batches.ts';
import { Batch, serializeBatch } from './batch.ts';
import { createSegment, type HotSegment, syncing, writing } from './hot-segment.ts';

/** Memory for a batch on its way to the disk; a larger batch gets its own, which is let go of afterwards. */
const MEMORY_BYTES = 9 * 1024 * 1024;

export interface WriterStart {
  readonly archiveId: Buffer;
  readonly hot: HotSegment;
  readonly chain: ChainState;
  /** Time of the last commit: the next is not earlier. */
  readonly time: number;
}

export interface WriterSettings {
  readonly dir: string;
  readonly files: FileLayer;
  readonly now: () => number;
  /** A batch begins in a new segment once the present one has this many bytes. */
  readonly segmentBytes?: number | undefined;
}

/** The one writer of an archive's log; `openLogWriter` makes it. */
export class LogWriter {
  readonly archiveId: Buffer;
  #hot: HotSegment;
  #chain: ChainState;
  #time: number;
  #memory: Buffer = Buffer.alloc(0);
  /** Bytes of a failed write lie behind the last commit and could not be cut off yet. */
  #uncut = false;
  #poison: unknown;
  #closed = false;
  #queue: Promise<unknown> = Promise.resolve();
  /** Counts failures: whatever waited when one happened fails with it. */
  #failures = 0;
  #failure: unknown;

  constructor(
    private readonly settings: WriterSettings,
    start: WriterStart,
  ) {
    this.archiveId = start.archiveId;
    this.#hot = start.hot;
    this.#chain = start.chain;
    this.#time = start.time;
  }

  /** The last durable commit; number 0 and the genesis hash before the first. */
  get last(): ChainState {
    return this.#chain;
  }

  /** The segment that is written to. Those before it are closed, and can be sealed. */
  get segment(): number {
    return this.#hot.segment;
  }

  newBatch(): Batch {
    return new Batch(this.settings.files);
  }

  /**
   * Makes a batch durable with one write and one fdatasync. Commits go one after the other in the order of the calls; the
   * batch must not be empty, and must not be touched until the promise has settled.
   *
   * @throws `disk-full`, `log-write-failed`: nothing of the batch is in the log; it can be committed again, and so can
   *   others. Commits that were waiting behind it fail with the same error, since they may refer to its bytes.
   * @throws `log-sync-failed`: now and on every later call. The process has to end.
   */
  async commit(batch: Batch): Promise<CommittedBatch> {
    if (batch.records === 0) throw new Error('an empty batch has nothing to commit');
    batch.beginCommit();
    try {
      const committed = await this.#inTurn(() => this.#append(batch));
      batch.endCommit('committed');
      return committed;
    } catch (error) {
      batch.endCommit('failed');
      throw error;
    }
  }

  /** Begins a new segment if the present one has at least this many bytes; says whether it did. Throws as `commit` does. */
  async rollIfLarger(bytes: number): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#hot.offset < bytes || this.#hot.ordinal === 0) return false;
      await this.#roll();
      return true;
    });
  }

  /** Waits for what is under way and lets go of the file. Nothing can be committed afterwards. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // Whoever waits for a commit hears of its failure; here only its end matters.
    await this.#queue.catch(() => undefined);
    this.#hot.file.close();
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new Error('the log writer is closed'));
    const failures = this.#failures;
    const turn = this.#queue.then(async () => {
      if (this.#poison !== undefined) throw this.#poison;
      if (failures !== this.#failures) throw this.#failure;
      try {
        return await act();
      } catch (error) {
        this.#failures += 1;
        this.#failure = error;
        if (hasCode(error, 'log-sync-failed')) this.#poison = error;
        throw error;
      }
    });
    this.#queue = turn.catch(() => undefined);
    return turn;
  }

  async #append(batch: Batch): Promise<CommittedBatch> {
    const limit = this.settings.segmentBytes ?? SEGMENT_BYTES;
    if (this.#hot.offset >= limit && this.#hot.ordinal > 0) await this.#roll();
    await this.#cut();
    const hot = this.#hot;
    const { bytes, memory, committed, nextOrdinal } = serializeBatch(
      batch,
      {
        space: { archiveId: this.archiveId, segment: hot.segment },
        chain: this.#chain,
        time: Math.max(this.#time, Math.floor(this.settings.now())),
        offset: hot.offset,
        ordinal: hot.ordinal,
      },
      this.#memory,
    );
    if (memory.length <= MEMORY_BYTES) this.#memory = memory;
    try {
      await writing(hot.path, bytes.length, () => writeAll(hot.file, bytes, hot.offset));
    } catch (error) {
      this.#uncut = true;
      // If the cut fails too, the next commit tries it again before it writes; what the caller needs to hear is why
      // the batch is not in the log.
      await this.#cut().catch(() => undefined);
      throw error;
    }
    await syncing(hot.path, () => hot.file.datasync());
    this.#hot = { ...hot, offset: hot.offset + bytes.length, ordinal: nextOrdinal };
    this.#chain = { number: committed.commit.number, hash: committed.commit.hash };
    this.#time = committed.commit.time;
    return committed;
  }

  async #cut(): Promise<void> {
    if (!this.#uncut) return;
    const { file, path, offset } = this.#hot;
    await writing(path, 0, () => file.truncate(offset));
    this.#uncut = false;
  }

  async #roll(): Promise<void> {
    await this.#cut();
    const { dir, files } = this.settings;
    const next = this.#hot.segment + 1;
    const fresh = await createSegment(files, dir, this.archiveId, next, this.#chain);
    this.#hot.file.close();
    this.#hot = fresh;
  }
}
