import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { ThreadEnded } from '../core/error-tables.ts';
import { PieceFeed, postPiece } from '../core/in-thread.ts';
import { builtWorker, WorkerThread } from '../core/worker-thread.ts';
import { mailError, mimeWorkerFailed } from './errors.ts';
import {
  DEFAULT_LIMITS,
  type ExtractionJob,
  type Extractor,
  emptyExtraction,
  type IndexEntry,
  indexEntry,
  type MimeLimits,
  threadEndReason,
  type UnparsedReason,
} from './extraction.ts';
import type {
  ExtractWorkerData,
  FromReader,
  GroupedJob,
  GroupResults,
  JobGroup,
  ReadTask,
  ReadWorkerData,
  ToReader,
} from './reading.ts';

interface PendingJob {
  readonly seq: number;
  readonly source: Uint8Array;
  readonly cut: boolean;
  readonly unparsed: UnparsedReason | null;
  /** True if the job must be alone in its group, because a thread died without revealing the culprit. */
  readonly alone: boolean;
  readonly resolve: (entry: IndexEntry) => void;
  readonly reject: (error: Error) => void;
}

const GROUP_JOBS = 16;
/** Source bytes per group. A larger message is sent alone in memory shared with the worker. */
const GROUP_BYTES = 256 * 1024;
/** Groups queued per thread, to keep it busy while the main thread writes messages to the index. */
const GROUPS_AHEAD = 12;

class ExtractorThread {
  readonly #thread: WorkerThread<JobGroup, GroupResults>;
  readonly #current: Int32Array;
  readonly #outstanding = new Map<number, PendingJob>();
  #groups = 0;
  #bytes = 0;
  #isWorn = false;
  #ending = false;

  constructor(
    workerFile: URL,
    private readonly limits: MimeLimits,
    private readonly events: {
      done(job: PendingJob, entry: IndexEntry): void;
      ready(): void;
      /** `culprit` crashed the thread; `others` contains the other unanswered jobs. */
      ended(end: ThreadEnded, culprit: PendingJob | undefined, others: readonly PendingJob[]): void;
    },
  ) {
    const current = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    this.#current = new Int32Array(current);
    const data: ExtractWorkerData = { mode: 'extract', limits, current };
    this.#thread = new WorkerThread(
      {
        ...{ name: 'mailkeep-mime', file: workerFile, data, heap: limits },
        workNumber: () => Atomics.load(this.#current, 0),
      },
      {
        message: (message) => this.#receive(message),
        ended: (end) => this.#ended(end),
      },
    );
    this.#thread.unref();
  }

  get outstandingJobs(): number {
    return this.#outstanding.size;
  }

  hasRoomFor(job: PendingJob): boolean {
    if (this.#thread.ending || this.#isWorn) return false;
    if (this.#groups === 0) return true;
    // Large messages wait for an idle thread, so that each thread holds at most one copied message.
    return (
      this.#groups < GROUPS_AHEAD &&
      this.#bytes + job.source.byteLength <= GROUPS_AHEAD * GROUP_BYTES
    );
  }

  /** Sends jobs from the front of the queue, at most `share`. Returns the number sent. */
  take(queue: readonly PendingJob[], share: number): number {
    const jobs: PendingJob[] = [];
    let bytes = 0;
    for (const job of queue.slice(0, Math.max(1, Math.min(share, GROUP_JOBS)))) {
      if (jobs.length > 0 && bytes + job.source.byteLength > GROUP_BYTES) break;
      if (jobs.length > 0 && job.alone) break;
      jobs.push(job);
      bytes += job.source.byteLength;
      if (job.alone) break;
    }
    this.#send(jobs, bytes);
    return jobs.length;
  }

  /** Terminates an idle thread, the only way to free its memory. The pool may start another. */
  async retire(): Promise<void> {
    this.#isWorn = true;
    await this.#thread.end();
  }

  async end(): Promise<void> {
    this.#ending = true;
    await this.#thread.end();
  }

  #send(jobs: readonly PendingJob[], bytes: number): void {
    // Jobs keep their sources until their results arrive, because a terminated thread loses its copy.
    const isShared = bytes > GROUP_BYTES;
    const buffer = isShared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes);
    const view = new Uint8Array(buffer);
    const grouped: GroupedJob[] = [];
    let offset = 0;
    for (const job of jobs) {
      const length = job.source.byteLength;
      view.set(job.source, offset);
      grouped.push({ seq: job.seq, offset, length, cut: job.cut, unparsed: job.unparsed });
      this.#outstanding.set(job.seq, isShared ? { ...job, source: view } : job);
      offset += length;
    }
    if (this.#groups === 0) this.#thread.limitWork(this.limits.messageMs);
    this.#groups++;
    this.#bytes += bytes;
    this.#thread.ref();
    const group: JobGroup = { buffer, jobs: grouped };
    this.#thread.post(group, buffer instanceof ArrayBuffer ? [buffer] : []);
  }

  #receive({ results, worn }: GroupResults): void {
    this.#groups--;
    this.#isWorn ||= worn;
    for (const { seq, entry } of results) {
      const job = this.#outstanding.get(seq);
      if (job === undefined) continue;
      this.#outstanding.delete(seq);
      this.#bytes -= job.source.byteLength;
      // A posted Buffer arrives as a plain Uint8Array.
      const packedText = entry.packedText === null ? null : Buffer.from(entry.packedText);
      this.events.done(job, { ...entry, packedText });
    }
    // Lets the process exit while the thread is idle.
    if (this.#groups === 0) {
      this.#thread.disarm();
      this.#thread.unref();
    }
    if (this.#groups === 0 && this.#isWorn) void this.retire();
    else this.events.ready();
  }

  #ended(end: ThreadEnded): void {
    if (this.#ending && this.#outstanding.size === 0) return;
    const seq = Atomics.load(this.#current, 0);
    const { started } = end.facts;
    const jobs = [...this.#outstanding.values()];
    // If the thread died between messages (results can exhaust memory), only a lone job is definitely to blame.
    const culprit = this.#outstanding.get(seq) ?? (jobs.length === 1 ? jobs[0] : undefined);
    this.#outstanding.clear();
    const isKnown = culprit !== undefined && started;
    if (isKnown)
      this.events.ended(
        end,
        culprit,
        jobs.filter((job) => job !== culprit),
      );
    else {
      const others = jobs.map((job) => ({ ...job, alone: job.alone || started }));
      this.events.ended(end, undefined, others);
    }
  }
}

export interface ExtractorPoolOptions {
  /** Default: the number of cores minus one, from 1 to 4. Each takes 80 MB; the main thread writes the index. */
  readonly workers?: number;
  readonly limits?: Partial<MimeLimits>;
  /** Defaults to the worker in the installed build. */
  readonly workerFile?: URL;
}

/** Consecutive failed starts after which the installation is considered broken. */
const MAX_FAILED_STARTS = 3;
const MAX_SEQ = 0x7fff_ffff;

/**
 * Opens an extractor whose worker threads start on demand. A message that exceeds the time or memory limit, or crashes
 * its thread, is `unparsed` but keeps its headers. The thread's other messages move to another thread.
 */
export function openExtractorPool(options: ExtractorPoolOptions = {}): Extractor {
  return new ExtractorPool(options);
}

class ExtractorPool implements Extractor {
  readonly width: number;
  readonly #limits: MimeLimits;
  readonly #workers: number;
  readonly #workerFile: URL;
  readonly #threads = new Set<ExtractorThread>();
  readonly #queue: PendingJob[] = [];
  readonly #idle: (() => void)[] = [];
  #nextSeq = 1;
  #unsettled = 0;
  #failedStarts = 0;
  #pumping = false;
  #closed = false;
  #closing: Promise<void> | null = null;

  constructor(options: ExtractorPoolOptions) {
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#workers = Math.max(1, options.workers ?? Math.min(4, availableParallelism() - 1));
    this.#workerFile = options.workerFile ?? builtWorker('mime-worker');
    this.width = this.#workers * GROUPS_AHEAD * GROUP_JOBS;
  }

  extract(job: ExtractionJob): Promise<IndexEntry> {
    if (this.#closed) return Promise.reject(mailError('extractor-closed', {}));
    return new Promise<IndexEntry>((resolve, reject) => {
      const isLong = job.source.byteLength > this.#limits.sourceBytes;
      this.#queue.push({
        seq: this.#nextSeq,
        source: isLong ? job.source.subarray(0, this.#limits.sourceBytes) : job.source,
        cut: job.cut || isLong,
        unparsed: null,
        alone: false,
        resolve,
        reject,
      });
      this.#nextSeq = this.#nextSeq === MAX_SEQ ? 1 : this.#nextSeq + 1;
      this.#unsettled++;
      this.#pumpSoon();
    });
  }

  async rest(): Promise<void> {
    const idle = [...this.#threads].filter(({ outstandingJobs }) => outstandingJobs === 0);
    await Promise.all(idle.map((thread) => thread.retire()));
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  async #drain(): Promise<void> {
    if (this.#unsettled > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await Promise.all([...this.#threads].map((thread) => thread.end()));
  }

  /** Defers sending by a microtask, so that jobs added together are sent together. */
  #pumpSoon(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    queueMicrotask(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#queue.length > 0) {
      const thread = this.#threadWithRoom();
      if (thread === null) break;
      const share = Math.ceil(this.#queue.length / this.#workers);
      const count = thread.take(this.#queue, share);
      this.#queue.splice(0, count);
    }
  }

  #threadWithRoom(): ExtractorThread | null {
    let best: ExtractorThread | null = null;
    for (const thread of this.#threads) {
      if (best === null || thread.outstandingJobs < best.outstandingJobs) best = thread;
    }
    if ((best === null || best.outstandingJobs > 0) && this.#threads.size < this.#workers) {
      return this.#startThread();
    }
    const next = this.#queue[0];
    return best !== null && next !== undefined && best.hasRoomFor(next) ? best : null;
  }

  #startThread(): ExtractorThread {
    const thread = new ExtractorThread(this.#workerFile, this.#limits, {
      done: (job, entry) => {
        this.#failedStarts = 0;
        this.#settle(() => job.resolve(entry));
      },
      ready: () => this.#pumpSoon(),
      ended: (...end) => this.#threadEnded(thread, ...end),
    });
    this.#threads.add(thread);
    return thread;
  }

  #threadEnded(
    thread: ExtractorThread,
    end: ThreadEnded,
    culprit: PendingJob | undefined,
    others: readonly PendingJob[],
  ): void {
    this.#threads.delete(thread);
    this.#queue.unshift(...others);
    // Retry with the headers only. If they also crash a worker, nothing can be read.
    if (culprit?.unparsed === null) {
      this.#queue.unshift({ ...culprit, unparsed: threadEndReason(end), alone: true });
    } else if (culprit !== undefined) {
      const entry = indexEntry(emptyExtraction(culprit.unparsed));
      this.#settle(() => culprit.resolve(entry));
    }
    if (!end.facts.started) this.#failedStarts++;
    if (this.#failedStarts >= MAX_FAILED_STARTS) this.#giveUp(end.cause);
    else this.#pumpSoon();
  }

  #giveUp(cause: unknown): void {
    const error = mimeWorkerFailed(fileURLToPath(this.#workerFile), cause);
    for (const job of this.#queue.splice(0)) this.#settle(() => job.reject(error));
    this.#failedStarts = 0;
  }

  #settle(settle: () => void): void {
    this.#unsettled--;
    settle();
    if (this.#unsettled === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}

type ReaderAnswer = Exclude<FromReader, { readonly kind: 'next' }>;

/**
 * Reads a message in a separate worker and yields the worker's answers. After a `chunk`, the worker waits for the
 * consumer, so a slow consumer slows the source. Throws errors from `source`, and `mail-unreadable` if the worker fails
 * or exceeds a limit. The worker exits once the message has been read, unless `spare` keeps it alive.
 */
export async function* readInWorker(
  source: AsyncIterable<Uint8Array>,
  task: ReadTask,
  options: ReadingOptions,
): AsyncGenerator<ReaderAnswer, void, undefined> {
  const { spare, signal } = options;
  signal?.throwIfAborted();
  const thread = spare?.take(task) ?? new ReadingThread(options);
  const leave = (): void => thread.fail(signal?.reason);
  signal?.addEventListener('abort', leave, { once: true });
  thread.begin(task, source);
  try {
    for (;;) {
      const answer = await thread.answer();
      yield answer;
      if (isLast(answer)) return;
      if (answer.kind === 'chunk') thread.more();
    }
  } finally {
    signal?.removeEventListener('abort', leave);
    if (spare?.keeps(thread, task) === true) await thread.rest();
    else await thread.end();
    spare?.prepare();
  }
}

/** Maximum messages per thread. A thread is reused only if its last message was no larger than `MAX_BYTES`. */
const MAX_READ = 100;
const MAX_BYTES = 1024 * 1024;

/** MiB, three times V8's default. The larger size used for indexing would cost each waiting thread 5 MB. */
const YOUNG_MB = 3;

class ReadingThread {
  readonly #thread: WorkerThread<ToReader, FromReader>;
  #feed: PieceFeed | null = null;
  readonly #messageMs: number;
  readonly #answers: ReaderAnswer[] = [];
  #waiting: { resolve: (a: ReaderAnswer) => void; reject: (e: unknown) => void } | null = null;
  #failure: { readonly error: unknown } | null = null;
  #read = 0;
  #bytes = 0;
  /** `source` is true once the thread has the whole source; `answers`, once it has sent its last answer. */
  #isThrough = { source: false, answers: false };

  constructor(options: ReadingOptions) {
    const limits = readingLimits(options);
    this.#messageMs = limits.messageMs;
    const file = options.workerFile ?? builtWorker('mime-worker');
    const data: ReadWorkerData = { mode: 'read', limits };
    this.#thread = new WorkerThread(
      {
        ...{ name: 'mailkeep-read', file, data },
        heap: { ...limits, youngGenerationMb: Math.min(limits.youngGenerationMb, YOUNG_MB) },
      },
      {
        message: (message) => this.#receive(message),
        ended: (end) => this.fail(mailError('mail-unreadable', { reason: threadEndReason(end) })),
      },
    );
    this.#thread.unref();
  }

  get isGone(): boolean {
    return this.#thread.ending || this.#failure !== null;
  }

  get canReadAnother(): boolean {
    const { source, answers } = this.#isThrough;
    const isUsable = !this.isGone && this.#answers.length === 0;
    return isUsable && source && answers && this.#read < MAX_READ && this.#bytes <= MAX_BYTES;
  }

  begin(task: ReadTask, source: AsyncIterable<Uint8Array>): void {
    this.#read += 1;
    this.#bytes = 0;
    this.#isThrough = { source: false, answers: false };
    this.#thread.ref();
    this.#thread.post({ kind: 'want', want: task });
    this.#feed = new PieceFeed(source);
    this.#thread.limitWork(this.#messageMs);
  }

  answer(): Promise<ReaderAnswer> {
    const answer = this.#answers.shift();
    if (answer !== undefined) return Promise.resolve(answer);
    if (this.#failure !== null) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  more(): void {
    this.#thread.limitWork(this.#messageMs);
    this.#thread.post({ kind: 'more' });
  }

  async end(): Promise<void> {
    await this.#thread.end();
    await this.#feed?.close();
  }

  async rest(): Promise<void> {
    this.#thread.unref();
    await this.#feed?.close();
  }

  #receive(message: FromReader): void {
    this.#thread.disarm();
    if (message.kind !== 'next' && isLast(message)) this.#isThrough.answers = true;
    if (message.kind === 'next') {
      this.#feedNext().catch((error: unknown) => this.fail(error));
    } else if (this.#waiting !== null) {
      const { resolve } = this.#waiting;
      this.#waiting = null;
      resolve(message);
    } else {
      this.#answers.push(message);
    }
  }

  async #feedNext(): Promise<void> {
    const piece = await this.#feed?.next();
    if (piece === undefined) return;
    if (this.#thread.ending) return;
    if (piece.kind === 'end') this.#isThrough.source = true;
    else this.#bytes += piece.bytes.byteLength;
    this.#thread.limitWork(this.#messageMs);
    postPiece(this.#thread, piece);
  }

  fail(error: unknown): void {
    this.#thread.disarm();
    this.#failure ??= { error };
    this.#waiting?.reject(this.#failure.error);
    this.#waiting = null;
  }
}

export interface ReadingOptions {
  readonly limits?: Partial<MimeLimits>;
  /** Defaults to the worker in the installed build. */
  readonly workerFile?: URL;
  readonly spare?: SpareReader;
  /** Counts remote images, which takes as long as building a page from the HTML; `rich`: only of rich HTML. */
  readonly countsRemote?: boolean | 'rich';
  /** Aborts reading, which then throws the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Keeps threads ready for programs that read messages only occasionally, since starting a thread takes longer than
 * reading a message. One thread is kept unused. Another displays messages, one at a time. Showing HTML and extracting
 * attachments each use a fresh thread.
 */
export class SpareReader {
  #fresh: ReadingThread | undefined;
  #used: ReadingThread | undefined;
  #closed = false;

  constructor(
    private readonly options: Omit<ReadingOptions, 'spare' | 'signal' | 'countsRemote'> = {},
  ) {}

  /** Starts a thread unless one is ready. The thread does not keep the process alive. */
  prepare(): void {
    if (this.#closed || this.#fresh?.isGone === false) return;
    this.#fresh = new ReadingThread(this.options);
  }

  take(task: ReadTask): ReadingThread | undefined {
    return (isForPeople(task) ? this.#takeUsed() : undefined) ?? this.#takeFresh();
  }

  keeps(thread: ReadingThread, task: ReadTask): boolean {
    const isKept =
      !this.#closed && this.#used === undefined && isForPeople(task) && thread.canReadAnother;
    if (isKept) this.#used = thread;
    return isKept;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#takeFresh()?.end(), this.#takeUsed()?.end()]);
  }

  #takeFresh(): ReadingThread | undefined {
    const fresh = this.#fresh;
    this.#fresh = undefined;
    return fresh?.isGone === false ? fresh : undefined;
  }

  #takeUsed(): ReadingThread | undefined {
    const used = this.#used;
    this.#used = undefined;
    return used?.isGone === false ? used : undefined;
  }
}

function isLast({ kind }: ReaderAnswer): boolean {
  return kind === 'message' || kind === 'page' || kind === 'finished';
}

function isForPeople({ kind }: ReadTask): boolean {
  return kind === 'message';
}

export function readingLimits({ limits }: ReadingOptions): MimeLimits {
  return { ...DEFAULT_LIMITS, ...limits };
}
