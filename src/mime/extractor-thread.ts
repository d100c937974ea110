import { Worker } from 'node:worker_threads';
import type { Extraction, UnparsedReason } from './extraction.ts';
import type { MimeLimits } from './limits.ts';
import type { ExtractWorkerData, GroupedJob, GroupResults, JobGroup } from './worker-protocol.ts';
import { LOADING } from './worker-protocol.ts';

/** A message that waits for its extraction. */
export interface PendingJob {
  readonly seq: number;
  readonly source: Uint8Array;
  readonly cut: boolean;
  readonly unparsed: UnparsedReason | null;
  /** True when it must not share a group: a thread ended and could not say on which message. */
  readonly alone: boolean;
  readonly resolve: (extraction: Extraction) => void;
  readonly reject: (error: Error) => void;
}

/** What a thread tells its pool. */
export interface ThreadEvents {
  done(job: PendingJob, extraction: Extraction): void;
  /** A group came back: there is room for another. */
  ready(): void;
  ended(end: ThreadEnd): void;
}

/** A thread is gone. */
export interface ThreadEnd {
  /** The message it was on. */
  readonly culprit: { readonly job: PendingJob; readonly reason: UnparsedReason } | null;
  /** What it had not answered besides. */
  readonly left: readonly PendingJob[];
  /** True when it never began to work. */
  readonly failedToStart: boolean;
  readonly cause: unknown;
}

/** Messages in a group, at most. */
export const GROUP_JOBS = 16;
/** Bytes of sources in a group; a message larger than this travels alone, in memory shared with the worker. */
const GROUP_BYTES = 256 * 1024;
/** One group is worked on while the next already lies in the port. */
const GROUPS_AHEAD = 2;

/** One worker thread, the groups it was given, and the watch over the message it is on. */
export class ExtractorThread {
  private readonly worker: Worker;
  private readonly current: Int32Array;
  private readonly outstanding = new Map<number, PendingJob>();
  private groups = 0;
  private bytes = 0;
  private watched = { seq: 0, since: 0 };
  private doom: UnparsedReason | null = null;
  private cause: unknown = null;
  private worn = false;
  private ending = false;

  constructor(
    workerFile: URL,
    private readonly limits: MimeLimits,
    private readonly events: ThreadEvents,
  ) {
    const current = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    this.current = new Int32Array(current);
    this.current[0] = LOADING;
    const workerData: ExtractWorkerData = { mode: 'extract', limits, current };
    this.worker = new Worker(workerFile, {
      name: 'mailkeep-mime',
      workerData,
      // Loaders and inspectors of the main thread have no business here.
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: limits.oldGenerationMb,
        maxYoungGenerationSizeMb: limits.youngGenerationMb,
      },
    });
    this.worker.on('message', (message: GroupResults) => this.receive(message));
    this.worker.on('messageerror', () => void this.worker.terminate());
    this.worker.on('error', (error: Error) => {
      this.cause = error;
      const memory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.doom ??= memory ? 'memory' : 'malformed';
    });
    this.worker.on('exit', () => this.exited());
    this.worker.unref();
  }

  get outstandingJobs(): number {
    return this.outstanding.size;
  }

  hasRoomFor(job: PendingJob): boolean {
    if (this.doom !== null || this.ending || this.worn) return false;
    if (this.groups === 0) return true;
    // Large messages wait for an idle thread, so that at most one a thread is held in memory twice.
    return this.groups < GROUPS_AHEAD && this.bytes + job.source.byteLength <= 2 * GROUP_BYTES;
  }

  /** Sends the first jobs of the queue, `share` of them at most; returns how many. */
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
    this.send(jobs, bytes);
    return jobs.length;
  }

  /** Ends the thread when it has been on one message for longer than a message may take. */
  check(now: number): void {
    const seq = Atomics.load(this.current, 0);
    if (seq <= 0 || seq !== this.watched.seq) {
      this.watched = { seq, since: now };
    } else if (now - this.watched.since >= this.limits.messageMs && this.doom === null) {
      this.doom = 'timeout';
      void this.worker.terminate();
    }
  }

  /** Ends an idle thread, because only that gives its memory back; the pool may start another when it is gone. */
  async retire(): Promise<void> {
    this.worn = true;
    await this.worker.terminate();
  }

  async end(): Promise<void> {
    this.ending = true;
    await this.worker.terminate();
  }

  private send(jobs: readonly PendingJob[], bytes: number): void {
    // The sources stay here until their results came: a thread that ends takes its copy with it.
    const shared = bytes > GROUP_BYTES;
    const buffer = shared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes);
    const view = new Uint8Array(buffer);
    const grouped: GroupedJob[] = [];
    let offset = 0;
    for (const job of jobs) {
      const length = job.source.byteLength;
      view.set(job.source, offset);
      grouped.push({ seq: job.seq, offset, length, cut: job.cut, unparsed: job.unparsed });
      this.outstanding.set(job.seq, shared ? { ...job, source: view } : job);
      offset += length;
    }
    this.groups++;
    this.bytes += bytes;
    this.worker.ref();
    const group: JobGroup = { buffer, jobs: grouped };
    if (buffer instanceof ArrayBuffer) this.worker.postMessage(group, [buffer]);
    else this.worker.postMessage(group);
  }

  private receive({ results, worn }: GroupResults): void {
    this.groups--;
    this.worn ||= worn;
    for (const { seq, extraction } of results) {
      const job = this.outstanding.get(seq);
      if (job === undefined) continue;
      this.outstanding.delete(seq);
      this.bytes -= job.source.byteLength;
      this.events.done(job, extraction);
    }
    // An idle thread does not keep the process alive.
    if (this.groups === 0) this.worker.unref();
    if (this.groups === 0 && this.worn) void this.retire();
    else this.events.ready();
  }

  private exited(): void {
    if (this.ending && this.outstanding.size === 0) return;
    const seq = Atomics.load(this.current, 0);
    const failedToStart = seq === LOADING;
    const jobs = [...this.outstanding.values()];
    // Between two messages, as when the results do not fit into memory, only a message alone is told for certain.
    const culprit = this.outstanding.get(seq) ?? (jobs.length === 1 ? jobs[0] : undefined);
    this.outstanding.clear();
    const known = culprit !== undefined && !failedToStart;
    this.events.ended({
      culprit: known ? { job: culprit, reason: this.doom ?? 'malformed' } : null,
      left: known
        ? jobs.filter((job) => job !== culprit)
        : jobs.map((job) => ({ ...job, alone: job.alone || !failedToStart })),
      failedToStart,
      cause: this.cause,
    });
  }
}
