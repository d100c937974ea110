import { logThreadEnded } from '../../errors/archive.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import { SEGMENT_BYTES } from '../format/layout.ts';
import type { CommittedBatch } from '../format/records.ts';
import type { ChainState } from '../read/segment-batches.ts';
import { type Batch, type BatchPlace, LocalBatch, MEMORY_BYTES, serializeBatch } from './batch.ts';
import { type Durability, DurabilityElsewhere, LocalDurability } from './durability.ts';
import { HotFile } from './hot-file.ts';
import type { HotSegment } from './hot-segment.ts';
import type { LogThread } from './log-thread.ts';
import { TrayBatch } from './tray-batch.ts';

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
  /**
   * What makes batches durable in place of this disk, which then holds a copy. Batches are then written by this thread.
   */
  readonly durability?: Durability | undefined;
  /** Starts a thread for the work of writing; without it, this thread does that itself. */
  readonly startThread?: (() => LogThread) | undefined;
  /**
   * Starts the thread after two batches of at least this many messages, which are the beginning of many: 64 if not said.
   * With 0 it starts at once.
   */
  readonly threadFrom?: number | undefined;
}

const MANY_MESSAGES = 64;

/** The one writer of an archive's log; `openLogWriter` makes it. */
export class LogWriter {
  readonly archiveId: Buffer;
  readonly #file: HotFile;
  readonly #durability: Durability;
  #hot: Pick<HotSegment, 'segment' | 'offset' | 'ordinal'>;
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
  #thread: LogThread | undefined;
  /** Messages of the batch before. */
  #messagesBefore = 0;

  constructor(
    private readonly settings: WriterSettings,
    start: WriterStart,
  ) {
    const { archiveId, hot } = start;
    const { durability } = settings;
    this.archiveId = archiveId;
    this.#file = new HotFile({ ...settings, archiveId }, hot);
    this.#durability =
      durability === undefined
        ? new LocalDurability(this.#file)
        : new DurabilityElsewhere(this.#file, durability);
    this.#hot = hot;
    this.#chain = start.chain;
    this.#time = start.time;
    this.#considerThread(0);
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
    const { files } = this.settings;
    return this.#thread?.ready === true ? this.#thread.newBatch(files) : new LocalBatch(files);
  }

  /**
   * Makes a batch durable: with one write and one fdatasync, or as `WriterSettings.durability` does it. Commits go one
   * after the other in the order of the calls; the batch must not be empty, and must not be touched until the promise has
   * settled.
   *
   * @throws `disk-full`, `log-write-failed`: nothing of the batch is in the log; it can be committed again, and so can
   *   others. Commits that were waiting behind it fail with the same error, since they may refer to its bytes.
   * @throws `log-sync-failed`, `log-thread-ended`: now and on every later call. The process has to end.
   * @throws `log-fenced`, `log-copy-failed`: now and on every later call. Nothing is promised about the batch, so nothing
   *   that was derived from it may be kept: the archive has to be closed, and opened again where that is allowed.
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

  /** Ends the thread, if there is one, when what is under way is written. Another starts when many messages come again. */
  async endThread(): Promise<void> {
    const turn = this.#queue.then(async () => {
      const thread = this.#thread;
      this.#thread = undefined;
      this.#messagesBefore = 0;
      await thread?.end();
    });
    this.#queue = turn.catch(() => undefined);
    await turn;
  }

  /** Waits for what is under way and lets go of the file. Nothing can be committed afterwards. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // Whoever waits for a commit hears of its failure; here only its end matters.
    await this.#queue.catch(() => undefined);
    await this.endThread();
    this.#file.close();
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
        if (isFinal(error)) this.#poison = error;
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
    const place: BatchPlace = {
      space: { archiveId: this.archiveId, segment: hot.segment },
      chain: this.#chain,
      time: Math.max(this.#time, Math.floor(this.settings.now())),
      offset: hot.offset,
      ordinal: hot.ordinal,
    };
    this.#uncut = true;
    try {
      const thread = this.#thread;
      const written =
        // One that ended between two batches left the log as it was.
        batch instanceof TrayBatch && thread?.ready === true
          ? await onThread(thread, batch, this.#file.path, place)
          : await this.#here(batch, place);
      const { committed, bytes, nextOrdinal } = written;
      this.#uncut = false;
      this.#hot = { ...hot, offset: hot.offset + bytes, ordinal: nextOrdinal };
      this.#chain = { number: committed.commit.number, hash: committed.commit.hash };
      this.#time = committed.commit.time;
      this.#considerThread(batch.messages);
      return committed;
    } catch (error) {
      // If the cut fails too, the next commit tries it again before it writes; what the caller needs to hear is why
      // the batch is not in the log.
      if (!isFinal(error)) await this.#cut().catch(() => undefined);
      throw error;
    }
  }

  async #here(batch: Batch, place: BatchPlace): Promise<Written> {
    const local = batch instanceof TrayBatch ? batch.local() : batch;
    if (!(local instanceof LocalBatch)) throw new TypeError('a batch of another kind of log');
    const { bytes, memory, committed, nextOrdinal } = serializeBatch(local, place, this.#memory);
    if (memory.length <= MEMORY_BYTES) this.#memory = memory;
    const { commit, previousHash } = committed;
    const { space, offset, ordinal } = place;
    await this.#durability.append(
      bytes,
      { ...commit, previousHash },
      { segment: space.segment, offset, ordinal, nextOrdinal },
    );
    return { committed, bytes: bytes.length, nextOrdinal };
  }

  /** Starts the thread when many messages come at once; until it has loaded, batches are written here. */
  #considerThread(messages: number): void {
    const { threadFrom = MANY_MESSAGES, durability } = this.settings;
    const many = Math.min(messages, this.#messagesBefore) >= threadFrom;
    this.#messagesBefore = messages;
    if (!many || this.#closed || this.#thread !== undefined || durability !== undefined) return;
    try {
      this.#thread = this.settings.startThread?.();
    } catch {
      // The system gives no more threads: what is written here is written all the same.
    }
  }

  async #cut(): Promise<void> {
    if (!this.#uncut) return;
    await this.#file.cut(this.#hot.offset);
    this.#uncut = false;
  }

  async #roll(): Promise<void> {
    await this.#cut();
    const segment = this.#hot.segment + 1;
    await this.#durability.roll({ segment, previous: this.#chain });
    this.#thread?.letGo();
    this.#hot = { segment, offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
  }
}

interface Written {
  readonly committed: CommittedBatch;
  readonly bytes: number;
  readonly nextOrdinal: number;
}

/** Has the thread write a batch. @throws `log-thread-ended`, and what the thread throws */
async function onThread(
  thread: LogThread,
  batch: TrayBatch,
  path: string,
  place: BatchPlace,
): Promise<Written> {
  try {
    const appended = await thread.append(batch, path, place);
    const committed = batch.committed(appended, place);
    thread.takeBack(batch);
    return { committed, bytes: appended.bytes, nextOrdinal: appended.nextOrdinal };
  } catch (error) {
    throw hasCode(error, 'thread-ended') ? logThreadEnded(path, error) : error;
  }
}

const FINAL = ['log-sync-failed', 'log-thread-ended', 'log-fenced', 'log-copy-failed'] as const;

/** Whether the log is not to be written again by this process, not even to cut off what a write left. */
function isFinal(error: unknown): boolean {
  return FINAL.some((code) => hasCode(error, code));
}
