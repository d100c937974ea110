import { hash as digest, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { errnoName, hasCode } from '../core/errors.ts';
import {
  BATCH_BUFFER_BYTES,
  type Batch,
  type BatchPosition,
  LocalBatch,
  serializeBatch,
} from './batch.ts';
import { archiveError, logSyncFailed } from './errors.ts';
import { type FileLayer, openRegular, readSmallFile, realFiles } from './file-system.ts';
import {
  ARCHIVE_ID_BYTES,
  type CommittedBatch,
  formatPath,
  genesisHash,
  isTemporary,
  logFolder,
  parseTailName,
  RECORD_HEADER_BYTES,
  SEGMENT_BYTES,
  SEGMENT_HEADER_BYTES,
  tailPath,
  temporaryPath,
} from './format.ts';
import {
  convertSyncErrors,
  convertWriteErrors,
  createSegment,
  HotFile,
  type HotSegment,
} from './hot-segment.ts';
import { type LogThread, SharedBufferBatch } from './log-thread.ts';
import { reportUnreadable } from './mend-segment.ts';
import {
  checkFormat,
  declareZstd,
  type ExpectedCommit,
  findSegmentEnd,
  isUnused,
  requireExpectedCommit,
  type SegmentEnd,
  setTailAside,
  type TornTail,
  writeFormat,
} from './recovery.ts';
import {
  listSegments,
  type OpenSegment,
  openCurrentGeneration,
  type SegmentListing,
  withSegment,
} from './segment-files.ts';
import { type ChainState, segmentBatches } from './segment-reader.ts';

interface WriterStart {
  readonly archiveId: Buffer;
  readonly hot: HotSegment;
  readonly chain: ChainState;
  readonly time: number;
}

interface WriterSettings
  extends Pick<LogWriterOptions, 'dir' | 'now' | 'segmentBytes' | 'startThread' | 'threadFrom'> {
  readonly files: FileLayer;
}

const MANY_MESSAGES = 64;

/** The only writer of an archive's log, created by `openLogWriter`. */
export class LogWriter {
  readonly archiveId: Buffer;
  readonly #file: HotFile;
  #hot: Pick<HotSegment, 'segment' | 'offset' | 'ordinal'>;
  #chain: ChainState;
  #time: number;
  #memory: Buffer = Buffer.alloc(0);
  /** True if bytes from a failed write may follow the last commit. */
  #needsTruncation = false;
  #poison: unknown;
  #closed = false;
  #queue: Promise<unknown> = Promise.resolve();
  /** Number of failures. Each failure also fails the operations waiting at that time. */
  #failures = 0;
  #failure: unknown;
  #thread: LogThread | undefined;
  #messagesBefore = 0;

  constructor(
    private readonly settings: WriterSettings,
    start: WriterStart,
  ) {
    const { archiveId, hot } = start;
    this.archiveId = archiveId;
    this.#file = new HotFile({ ...settings, archiveId }, hot);
    this.#hot = hot;
    this.#chain = start.chain;
    this.#time = start.time;
    this.#considerThread(0);
  }

  /** The last durable commit, or number 0 and the genesis hash. */
  get last(): ChainState {
    return this.#chain;
  }

  /** The segment being written. Earlier segments can be sealed. */
  get segment(): number {
    return this.#hot.segment;
  }

  newBatch(): Batch {
    const { files } = this.settings;
    return this.#thread?.ready === true ? this.#thread.newBatch(files) : new LocalBatch(files);
  }

  /**
   * Makes a batch durable. Commits run one at a time in call order. The batch must not be empty, and must not change
   * until the promise settles.
   *
   * @throws `disk-full`, `log-write-failed` if no part of the batch is in the log, so the caller can retry. Waiting
   * commits fail with the same error, because they may refer to the batch.
   * @throws `log-sync-failed`, `log-thread-ended` now and on every later call. The process must exit.
   */
  async commit(batch: Batch): Promise<CommittedBatch> {
    if (batch.records === 0) throw new Error('an empty batch has nothing to commit');
    batch.beginCommit();
    try {
      const result = await this.#serialise(() => this.#append(batch));
      batch.endCommit('committed');
      return result;
    } catch (error) {
      batch.endCommit('failed');
      throw error;
    }
  }

  /** Starts a segment if the current one has reached this size. Reports whether it did. @throws errors from `commit` */
  async rollIfLarger(bytes: number): Promise<boolean> {
    return this.#serialise(async () => {
      if (this.#hot.offset < bytes || this.#hot.ordinal === 0) return false;
      await this.#roll();
      return true;
    });
  }

  /** Stops the thread once pending writes have finished. A later burst of messages starts a new thread. */
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

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // Callers of `commit` receive the failures.
    await this.#queue.catch(() => undefined);
    await this.endThread();
    this.#file.close();
  }

  #serialise<T>(act: () => Promise<T>): Promise<T> {
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
    await this.#truncate();
    const hot = this.#hot;
    const place: BatchPosition = {
      space: { archiveId: this.archiveId, segment: hot.segment },
      chain: this.#chain,
      time: Math.max(this.#time, Math.floor(this.settings.now())),
      offset: hot.offset,
      ordinal: hot.ordinal,
    };
    this.#needsTruncation = true;
    try {
      const thread = this.#thread;
      const result =
        // A thread that exits between two batches leaves the log intact.
        batch instanceof SharedBufferBatch && thread?.ready === true
          ? await onThread(thread, batch, this.#file.path, place)
          : await this.#writeHere(batch, place);
      const { committed, bytes, nextOrdinal } = result;
      this.#needsTruncation = false;
      this.#hot = { ...hot, offset: hot.offset + bytes, ordinal: nextOrdinal };
      this.#chain = { number: committed.commit.number, hash: committed.commit.hash };
      this.#time = committed.commit.time;
      this.#considerThread(batch.messages);
      return committed;
    } catch (error) {
      // If truncating fails too, the next commit retries it. The caller needs the original error.
      if (!isFinal(error)) await this.#truncate().catch(() => undefined);
      throw error;
    }
  }

  async #writeHere(batch: Batch, place: BatchPosition): Promise<WriteResult> {
    const local = batch instanceof SharedBufferBatch ? batch.local() : batch;
    if (!(local instanceof LocalBatch)) throw new TypeError('a batch of another kind of log');
    const { bytes, memory, committed, nextOrdinal } = serializeBatch(local, place, this.#memory);
    if (memory.length <= BATCH_BUFFER_BYTES) this.#memory = memory;
    await this.#file.append(bytes, place.offset);
    return { committed, bytes: bytes.length, nextOrdinal };
  }

  /** Starts the thread when many messages arrive. Until it has loaded, batches are written on the current thread. */
  #considerThread(messages: number): void {
    const { threadFrom = MANY_MESSAGES } = this.settings;
    const isBurst = Math.min(messages, this.#messagesBefore) >= threadFrom;
    this.#messagesBefore = messages;
    if (!isBurst || this.#closed || this.#thread !== undefined) return;
    try {
      this.#thread = this.settings.startThread?.();
    } catch {
      // If the system refuses to start another thread, the current one continues to write.
    }
  }

  async #truncate(): Promise<void> {
    if (!this.#needsTruncation) return;
    await this.#file.cut(this.#hot.offset);
    this.#needsTruncation = false;
  }

  async #roll(): Promise<void> {
    await this.#truncate();
    const segment = this.#hot.segment + 1;
    await this.#file.roll(segment, this.#chain);
    this.#thread?.letGo();
    this.#hot = { segment, offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
  }
}

interface WriteResult {
  readonly committed: CommittedBatch;
  readonly bytes: number;
  readonly nextOrdinal: number;
}

/** @throws `log-thread-ended`; errors from the thread */
async function onThread(
  thread: LogThread,
  batch: SharedBufferBatch,
  path: string,
  place: BatchPosition,
): Promise<WriteResult> {
  try {
    const appended = await thread.append(batch, path, place);
    const committed = batch.committed(appended, place);
    thread.takeBack(batch);
    return { committed, bytes: appended.bytes, nextOrdinal: appended.nextOrdinal };
  } catch (error) {
    if (!hasCode(error, 'thread-ended')) throw error;
    const { reason, detail } = error.facts;
    const facts = { file: path, reason: String(reason), detail: String(detail) };
    throw archiveError('log-thread-ended', facts, error);
  }
}

/** After a final error, the process must not write to the log again, not even to truncate a failed write. */
function isFinal(error: unknown): boolean {
  return hasCode(error, 'log-sync-failed') || hasCode(error, 'log-thread-ended');
}

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]);

/**
 * Searches torn tails for payloads by their hexadecimal SHA-256. Cannot check the CRC of a header, because the CRC
 * covers the original offset, which a tail does not record.
 */
export function findTornPayloads(
  files: FileLayer,
  dir: string,
  hashes: ReadonlySet<string>,
): Map<string, Buffer> {
  const payloads = new Map<string, Buffer>();
  if (hashes.size === 0) return payloads;
  for (const name of files.list(logFolder(dir))) {
    const number = parseTailName(name);
    if (number === undefined) continue;
    const tail = openRegular(files, tailPath(dir, number));
    if (tail === undefined) continue;
    tail.close();
    const bytes = readSmallFile(files, tailPath(dir, number));
    for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
      if (at + RECORD_HEADER_BYTES > bytes.length) break;
      const hash = bytes.toString('hex', at + 16, at + 48);
      if (!hashes.has(hash)) continue;
      const start = at + RECORD_HEADER_BYTES;
      const payload = bytes.subarray(start, start + bytes.readUInt32LE(at + 12));
      if (digest('sha256', payload, 'hex') === hash) payloads.set(hash, payload);
    }
  }
  return payloads;
}

export interface LogWriterOptions {
  /** The archive's directory, whose lock the caller holds (see `acquireLock`). */
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly files?: FileLayer;
  /** The catalog's last commit, if any. A log that ends before it is damaged. */
  readonly expected?: ExpectedCommit | undefined;
  /** Called after a torn tail has been set aside. */
  readonly onTail?: (tail: TornTail) => void;
  /** Segment size at which the next batch starts a new segment. Defaults to 64 MiB. */
  readonly segmentBytes?: number | undefined;
  /** Starts a log thread when many messages arrive. By default, the current thread writes. */
  readonly startThread?: () => LogThread;
  /** Two consecutive batches of this many messages start the thread. Defaults to 64; 0 starts it immediately. */
  readonly threadFrom?: number;
}

/**
 * Opens the log for writing, and creates an archive if none exists. Removes unfinished files, makes the last segment
 * durable before trusting its commits, and sets a torn tail aside.
 *
 * @throws errors in the `damage` family if the log is unreadable or damaged; nothing has been changed
 * @throws `archive-format-newer`; `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function openLogWriter(options: LogWriterOptions): Promise<LogWriter> {
  const { dir } = options;
  const files = reportUnreadable(options.files ?? realFiles);
  const settings: WriterSettings = { ...options, files };
  await createArchive(files, dir);
  await removeUnfinished(files, dir);
  const listing = listSegments(files, dir);
  const last = [...listing.keys()].at(-1);
  if (last === undefined) return beginLog(settings, options.expected);

  await convertWriteErrors(dir, 0, () => declareZstd(files, dir, listing));
  const opened = openCurrentGeneration(files, dir, last);
  try {
    return await continueLog(settings, options, opened, listing);
  } finally {
    opened.file.close();
  }
}

/**
 * Creates an archive in an unused directory. Refuses a directory with an archive that this program cannot read.
 *
 * @throws `archive-format-newer`, `archive-format-unreadable`; `disk-full`, `log-write-failed`
 */
export async function createArchive(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  await convertWriteErrors(folder, 0, async () => files.makeFolder(folder));
  if (isUnused(files, dir)) await convertWriteErrors(dir, 0, () => writeFormat(files, dir));
  checkFormat(files, dir);
}

/** Removes temporary files left by interrupted work. @throws `log-write-failed` */
export async function removeUnfinished(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of files.list(folder).filter(isTemporary)) {
    await convertWriteErrors(folder, 0, () => files.remove(join(folder, name)));
  }
  const format = temporaryPath(formatPath(dir));
  if (files.list(dir).includes(basename(format))) {
    await convertWriteErrors(dir, 0, () => files.remove(format));
  }
}

async function beginLog(
  settings: WriterSettings,
  expected: ExpectedCommit | undefined,
): Promise<LogWriter> {
  const { dir, files } = settings;
  requireExpectedCommit(logFolder(dir), expected, 0);
  const archiveId = randomBytes(ARCHIVE_ID_BYTES);
  const chain = { number: 0, hash: genesisHash(archiveId) };
  const hot = await createSegment(files, dir, archiveId, 1, chain);
  // The directories must also survive a power cut.
  await convertSyncErrors(dir, () => files.syncFolder(dir));
  await files.syncFolder(dirname(dir)).catch((error: unknown) => {
    // The parent directory may belong to another user.
    if (errnoName(error) !== 'EACCES') throw logSyncFailed(dirname(dir), error);
  });
  return new LogWriter(settings, { archiveId, hot, chain, time: 0 });
}

async function continueLog(
  settings: WriterSettings,
  { expected, onTail }: LogWriterOptions,
  opened: OpenSegment,
  listing: SegmentListing,
): Promise<LogWriter> {
  const { dir, files } = settings;
  const { path, name, header } = opened;
  const { archiveId, segment } = header;
  // If the time of the expected commit is unknown, a whole segment must be read.
  const timeBefore = ({ chain }: SegmentEnd): number =>
    expected?.time !== undefined && expected.hash === chain.hash
      ? expected.time
      : lastTimeBefore(files, dir, listing, segment);
  const startAt = (end: SegmentEnd) => ({
    archiveId,
    chain: end.chain,
    time: end.time > 0 ? end.time : timeBefore(end),
  });
  if (name.generation > 1) {
    // The last segment is sealed if its successor was removed.
    const end = findSegmentEnd(opened, expected);
    const hot = await createSegment(files, dir, archiveId, segment + 1, end.chain);
    return new LogWriter(settings, { ...startAt(end), hot });
  }
  const file = files.open(path, 'write');
  try {
    // The page cache may hold bytes from an earlier run that are not on disk yet.
    await convertSyncErrors(path, () => file.datasync());
    const end = findSegmentEnd(opened, expected);
    const tail = await convertWriteErrors(path, 0, () =>
      setTailAside(files, dir, file, segment, end),
    );
    if (tail !== undefined) onTail?.(tail);
    const { offset, ordinal } = end;
    return new LogWriter(settings, {
      ...startAt(end),
      hot: { file, path, segment, offset, ordinal },
    });
  } catch (error) {
    file.close();
    throw error;
  }
}

function lastTimeBefore(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  segment: number,
): number {
  if (!listing.has(segment - 1)) return 0;
  return withSegment(files, dir, segment - 1, (opened) => {
    let time = 0;
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      if (item.what === 'batch') time = Math.max(time, item.commit.time);
    }
    return time;
  });
}
