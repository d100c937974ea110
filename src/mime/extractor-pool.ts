import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { extractorClosed, mimeWorkerFailed } from '../errors/mime.ts';
import { builtWorker } from '../threads/worker-thread.ts';
import { emptyExtraction } from './extraction.ts';
import type { ExtractionJob, Extractor } from './extractor.ts';
import {
  ExtractorThread,
  GROUP_JOBS,
  GROUPS_AHEAD,
  type PendingJob,
  type ThreadEnd,
} from './extractor-thread.ts';
import { type IndexEntry, indexEntry } from './index-entry.ts';
import { DEFAULT_LIMITS, type MimeLimits } from './limits.ts';

export interface ExtractorPoolOptions {
  /**
   * Worker threads; by default one a core but one, at least 1 and at most 4: the main thread writes the index
   * meanwhile, and each worker costs some 80 MB.
   */
  readonly workers?: number;
  readonly limits?: Partial<MimeLimits>;
  /** The built worker, where it is not in its usual place. */
  readonly workerFile?: URL;
}

/** Threads in a row that ended before they began to work, after which the installation is taken for broken. */
const MAX_FAILED_STARTS = 3;
const MAX_SEQ = 0x7fff_ffff;

/**
 * Opens an extractor over worker threads. Threads start when there is work for them. A message that takes too
 * long, too much memory or ends its thread in any other way comes back `unparsed` with its headers; the others
 * that waited in that thread are done elsewhere.
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
    if (this.#closed) return Promise.reject(extractorClosed());
    return new Promise<IndexEntry>((resolve, reject) => {
      const long = job.source.byteLength > this.#limits.sourceBytes;
      this.#queue.push({
        seq: this.#nextSeq,
        source: long ? job.source.subarray(0, this.#limits.sourceBytes) : job.source,
        cut: job.cut || long,
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

  /** Once a turn of the event loop, so that calls made together travel together. */
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
      const taken = thread.take(this.#queue, share);
      this.#queue.splice(0, taken);
    }
  }

  /** The least busy thread that takes more; a new one while all are busy and there may be more. */
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
      ended: (end) => this.#threadEnded(thread, end),
    });
    this.#threads.add(thread);
    return thread;
  }

  #threadEnded(thread: ExtractorThread, { left, culprit, end }: ThreadEnd): void {
    this.#threads.delete(thread);
    const again = [...left];
    if (culprit !== null) {
      const { job, reason } = culprit;
      // Headers are asked for once; a message whose headers end a worker too has nothing more to give.
      if (job.unparsed === null) again.unshift({ ...job, unparsed: reason, alone: true });
      else {
        const nothing = emptyExtraction(job.unparsed ?? reason);
        this.#settle(() => job.resolve(indexEntry(nothing)));
      }
    }
    this.#queue.unshift(...again);
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
