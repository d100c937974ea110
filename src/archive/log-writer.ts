import { hash as digest, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { errnoName, hasCode } from '../core/errors.ts';
import { type Batch, type BatchPlace, LocalBatch, MEMORY_BYTES, serializeBatch } from './batch.ts';
import { type Durability, DurabilityElsewhere, LocalDurability } from './durability.ts';
import { logSyncFailed, logThreadEnded } from './errors.ts';
import { type FileLayer, openIfFile, readWhole, realFiles, writeAll } from './file-system.ts';
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
  segmentPath,
  tailPath,
  temporaryPath,
} from './format.ts';
import { createSegment, HotFile, type HotSegment, syncing, writing } from './hot-segment.ts';
import { type LogThread, TrayBatch } from './log-thread.ts';
import { filesWithDamage } from './mend-segment.ts';
import {
  announceZstd,
  checkExpected,
  checkFormat,
  type ExpectedCommit,
  findEnd,
  isUnused,
  type LogEnd,
  type MissingBytes,
  missingBytes,
  putSegmentAside,
  putTailAside,
  refuseEarlyEnd,
  refuseStranger,
  type SegmentEnd,
  type TornTail,
  writeFormat,
} from './recovery.ts';
import {
  listSegments,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  withSegment,
} from './segment-files.ts';
import { type ChainState, segmentBatches } from './segment-reader.ts';

interface WriterStart {
  readonly archiveId: Buffer;
  readonly hot: HotSegment;
  readonly chain: ChainState;
  /** Time of the last commit: the next is not earlier. */
  readonly time: number;
}

interface WriterSettings {
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

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]);

/**
 * Looks for payloads in the tails that were put aside. A tail does not say where it stood, so header CRCs cannot be
 * asked; the SHA-256 of the payload is.
 *
 * @param wanted hexadecimal SHA-256 values
 */
export function payloadsInTails(
  files: FileLayer,
  dir: string,
  wanted: ReadonlySet<string>,
): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  if (wanted.size === 0) return found;
  for (const name of files.list(logFolder(dir))) {
    const number = parseTailName(name);
    if (number === undefined) continue;
    const tail = openIfFile(files, tailPath(dir, number));
    if (tail === undefined) continue;
    tail.close();
    const bytes = readWhole(files, tailPath(dir, number));
    for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
      if (at + RECORD_HEADER_BYTES > bytes.length) break;
      const hash = bytes.toString('hex', at + 16, at + 48);
      if (!wanted.has(hash)) continue;
      const start = at + RECORD_HEADER_BYTES;
      const payload = bytes.subarray(start, start + bytes.readUInt32LE(at + 12));
      if (digest('sha256', payload, 'hex') === hash) found.set(hash, payload);
    }
  }
  return found;
}

export interface LogWriterOptions {
  /** The archive's folder; the caller holds its lock (see `acquireLock`). */
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly files?: FileLayer;
  /** The commit that the catalog has reached, if there is a catalog. A log that ends before it is damaged. */
  readonly expected?: ExpectedCommit | undefined;
  /** Called when the bytes of a torn write were put aside. */
  readonly onTail?: (tail: TornTail) => void;
  /** A batch begins in a new segment once the present one has this many bytes; default about 64 MiB. */
  readonly segmentBytes?: number;
  /** Starts a thread that writes when many messages come; without it, the caller's thread writes. */
  readonly startThread?: () => LogThread;
  /** See `WriterSettings`. */
  readonly threadFrom?: number;
}

/**
 * Opens the log for writing, and lays out a new archive where there is none. Removes unfinished files, makes the last
 * segment durable before it trusts its commits, and puts a torn tail aside.
 *
 * @throws errors of family `damage` when the log is not what was written, or the disk does not give it back: then
 *   nothing was changed
 * @throws `archive-format-newer`; `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function openLogWriter(options: LogWriterOptions): Promise<LogWriter> {
  const { dir, now, segmentBytes, startThread, threadFrom } = options;
  const files = filesWithDamage(options.files ?? realFiles);
  const settings: WriterSettings = {
    dir,
    now,
    files,
    segmentBytes,
    startThread,
    threadFrom,
  };
  await layOut(files, dir);
  await removeUnfinished(files, dir);
  const listing = listSegments(files, dir);
  const last = [...listing].at(-1);
  if (last === undefined) return beginLog(settings, options.expected);

  await writing(dir, 0, () => announceZstd(files, dir, listing));
  const opened = openInForce(files, dir, ...last);
  try {
    return await continueLog(settings, options, opened, listing);
  } finally {
    opened.file.close();
  }
}

/**
 * Lays out a new archive in a folder that holds none, and refuses one that this program cannot read.
 *
 * @throws `archive-format-newer`, `archive-format-unreadable`; `disk-full`, `log-write-failed`
 */
export async function layOut(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  await writing(folder, 0, async () => files.makeFolder(folder));
  if (isUnused(files, dir)) await writing(dir, 0, () => writeFormat(files, dir));
  checkFormat(files, dir);
}

/**
 * Removes the files that interrupted work left under temporary names.
 *
 * @throws `log-write-failed`
 */
export async function removeUnfinished(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of files.list(folder).filter(isTemporary)) {
    await writing(folder, 0, () => files.remove(join(folder, name)));
  }
  const format = temporaryPath(formatPath(dir));
  if (files.list(dir).includes(basename(format))) {
    await writing(dir, 0, () => files.remove(format));
  }
}

async function beginLog(
  settings: WriterSettings,
  expected: ExpectedCommit | undefined,
): Promise<LogWriter> {
  const { dir, files } = settings;
  refuseEarlyEnd(logFolder(dir), expected, 0);
  const archiveId = randomBytes(ARCHIVE_ID_BYTES);
  const chain = { number: 0, hash: genesisHash(archiveId) };
  const hot = await createSegment(files, dir, archiveId, 1, chain);
  // The folders themselves have to outlive a power cut, too.
  await syncing(dir, () => files.syncFolder(dir));
  await files.syncFolder(dirname(dir)).catch((error: unknown) => {
    // The parent folder may belong to another user and be unreadable.
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
  // Whoever knows the last commit knows its time as well; otherwise a whole segment is read for it.
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
    // The last segment is sealed: the one that was begun after it has been removed.
    const end = findEnd(opened, expected);
    const hot = await createSegment(files, dir, archiveId, segment + 1, end.chain);
    return new LogWriter(settings, { ...startAt(end), hot });
  }
  const file = files.open(path, 'write');
  try {
    // What the page cache shows of an earlier run may not be on the disk yet.
    await syncing(path, () => file.datasync());
    const end = findEnd(opened, expected);
    const tail = await writing(path, 0, () => putTailAside(files, dir, file, segment, end));
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

/** The time of the last commit before a segment that has none yet. */
function lastTimeBefore(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  segment: number,
): number {
  const generations = listing.get(segment - 1);
  if (generations === undefined) return 0;
  return withSegment(files, dir, segment - 1, generations, (opened) => {
    let time = 0;
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      if (item.what === 'batch') time = Math.max(time, item.commit.time);
    }
    return time;
  });
}

type OpenedAtEnd =
  | { readonly is: 'open'; readonly log: LogWriter }
  | { readonly is: 'missing'; readonly missing: readonly MissingBytes[] };

export interface AtEndOptions
  extends Pick<LogWriterOptions, 'dir' | 'now' | 'files' | 'expected' | 'onTail' | 'segmentBytes'> {
  readonly end: LogEnd;
  /** What knows that end, and makes further commits durable. */
  readonly durability: Durability;
}

/**
 * Opens the local copy of a log whose end is known, and lays out an empty one where there is none. What the disk has
 * beyond the end is put aside, segments included. Segments that are sealed need not be there.
 *
 * Where the copy lacks bytes, nothing is opened: `supplyBytes` takes them, and then this can be called again. It verifies
 * what it was given; bytes of another chain make it ask for the segment.
 *
 * @throws `log-damaged` (`diverged`) when the folder holds another archive, `log-ends-early` and `log-diverged` when the
 *   catalog is not one of this log: nothing was changed
 * @throws `archive-format-newer`; `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function openLogAtEnd(options: AtEndOptions): Promise<OpenedAtEnd> {
  const { dir, end, expected } = options;
  const files = filesWithDamage(options.files ?? realFiles);
  refuseEarlyEnd(logFolder(dir), expected, end.commit.number);
  checkExpected(end.commit, expected, logFolder(dir));
  await layOut(files, dir);
  const listing = listSegments(files, dir);
  refuseStranger(files, dir, listing, end.archiveId);
  const missing = missingBytes(files, dir, listing, end, expected);

  await removeUnfinished(files, dir);
  await writing(dir, 0, () => announceZstd(files, dir, listing));
  // From the last one on, so that an interruption leaves no gap.
  for (const [segment, generations] of [...listing].reverse()) {
    if (segment <= end.hot.segment) break;
    await putAside(files, options, segment, generations);
  }
  if (missing.length > 0) return { is: 'missing', missing };
  const hot = listing.has(end.hot.segment)
    ? await openHot(files, options)
    : await createSegment(files, dir, end.archiveId, end.hot.segment, end.hot.previous);
  const { now, segmentBytes, durability } = options;
  const { archiveId, commit } = end;
  const settings = { dir, now, files, segmentBytes, durability };
  const log = new LogWriter(settings, { archiveId, hot, chain: commit, time: commit.time });
  return { is: 'open', log };
}

async function openHot(files: FileLayer, { dir, end, onTail }: AtEndOptions): Promise<HotSegment> {
  const { segment, offset, ordinal } = end.hot;
  const path = segmentPath(dir, { segment, generation: 1 });
  const file = files.open(path, 'write');
  try {
    const behind = { chain: end.commit, time: end.commit.time, ordinal, offset };
    const tail = await writing(path, 0, () => putTailAside(files, dir, file, segment, behind));
    if (tail !== undefined) onTail?.(tail);
    return { file, path, segment, offset, ordinal };
  } catch (error) {
    file.close();
    throw error;
  }
}

async function putAside(
  files: FileLayer,
  { dir, onTail }: Pick<AtEndOptions, 'dir' | 'onTail'>,
  segment: number,
  generations: readonly number[],
): Promise<void> {
  for (const generation of generations) {
    const tail = await writing(dir, 0, () => putSegmentAside(files, dir, { segment, generation }));
    onTail?.(tail);
  }
}

/**
 * Puts bytes where they are missing, durably. They are verified when the log is opened again. A file of which nothing can
 * be used is put aside.
 *
 * @param pieces the bytes of generation 1 of the segment from `missing.from` to `missing.until`
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`, and what `pieces` throw
 */
export async function supplyBytes(
  options: Pick<AtEndOptions, 'dir' | 'end' | 'files' | 'onTail'>,
  { what, segment, from, after }: MissingBytes,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const { dir, end, files = realFiles } = options;
  const path = segmentPath(dir, { segment, generation: 1 });
  if (what === 'segment') {
    await putAside(files, options, segment, listSegments(files, dir).get(segment) ?? []);
  }
  const file =
    what === 'segment'
      ? (await createSegment(files, dir, end.archiveId, segment, after)).file
      : files.open(path, 'write');
  try {
    await writing(path, 0, () => file.truncate(from));
    let at = from;
    for await (const piece of pieces) {
      await writing(path, piece.length, () => writeAll(file, piece, at));
      at += piece.length;
    }
    await syncing(path, () => file.datasync());
  } finally {
    file.close();
  }
}
