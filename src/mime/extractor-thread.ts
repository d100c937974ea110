import type { ThreadEnded } from '../errors/threads.ts';
import { WorkerThread } from '../threads/worker-thread.ts';
import { reasonOfEnd, type UnparsedReason } from './extraction.ts';
import type { IndexEntry } from './index-entry.ts';
import type { MimeLimits } from './limits.ts';
import { receiveEntries } from './sent-entries.ts';
import type { ExtractWorkerData, GroupedJob, GroupResults, JobGroup } from './worker-protocol.ts';

/** A message that waits for its extraction. */
export interface PendingJob {
  readonly seq: number;
  readonly source: Uint8Array;
  readonly cut: boolean;
  readonly unparsed: UnparsedReason | null;
  /** True when it must not share a group: a thread ended and could not say on which message. */
  readonly alone: boolean;
  readonly resolve: (entry: IndexEntry) => void;
  readonly reject: (error: Error) => void;
}

/** What a thread tells its pool. */
export interface ThreadEvents {
  done(job: PendingJob, entry: IndexEntry): void;
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
  readonly end: ThreadEnded;
}

/** Messages in a group, at most. */
export const GROUP_JOBS = 16;
/** Bytes of sources in a group; a message larger than this travels alone, in memory shared with the worker. */
const GROUP_BYTES = 256 * 1024;
/**
 * Groups that lie in the port of a thread, the one that is worked on included: enough to keep it busy while the main
 * thread writes some hundred messages into the index.
 */
export const GROUPS_AHEAD = 12;

/** One worker thread, the groups it was given, and the limit on the message it is on. */
export class ExtractorThread {
  readonly #thread: WorkerThread<JobGroup, GroupResults>;
  readonly #current: Int32Array;
  readonly #outstanding = new Map<number, PendingJob>();
  #groups = 0;
  #bytes = 0;
  #worn = false;
  #ending = false;

  constructor(
    workerFile: URL,
    private readonly limits: MimeLimits,
    private readonly events: ThreadEvents,
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
    if (this.#thread.ending || this.#worn) return false;
    if (this.#groups === 0) return true;
    // Large messages wait for an idle thread, so that at most one a thread is held in memory twice.
    return (
      this.#groups < GROUPS_AHEAD &&
      this.#bytes + job.source.byteLength <= GROUPS_AHEAD * GROUP_BYTES
    );
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
    this.#send(jobs, bytes);
    return jobs.length;
  }

  /** Ends an idle thread, because only that gives its memory back; the pool may start another when it is gone. */
  async retire(): Promise<void> {
    this.#worn = true;
    await this.#thread.end();
  }

  async end(): Promise<void> {
    this.#ending = true;
    await this.#thread.end();
  }

  #send(jobs: readonly PendingJob[], bytes: number): void {
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
      this.#outstanding.set(job.seq, shared ? { ...job, source: view } : job);
      offset += length;
    }
    if (this.#groups === 0) this.#thread.limitWork(this.limits.messageMs);
    this.#groups++;
    this.#bytes += bytes;
    this.#thread.ref();
    const group: JobGroup = { buffer, jobs: grouped };
    this.#thread.post(group, buffer instanceof ArrayBuffer ? [buffer] : []);
  }

  #receive({ results, bytes, worn }: GroupResults): void {
    this.#groups--;
    this.#worn ||= worn;
    for (const { seq, entry } of receiveEntries(results, bytes)) {
      const job = this.#outstanding.get(seq);
      if (job === undefined) continue;
      this.#outstanding.delete(seq);
      this.#bytes -= job.source.byteLength;
      this.events.done(job, entry);
    }
    // An idle thread does not keep the process alive.
    if (this.#groups === 0) {
      this.#thread.disarm();
      this.#thread.unref();
    }
    if (this.#groups === 0 && this.#worn) void this.retire();
    else this.events.ready();
  }

  #ended(end: ThreadEnded): void {
    if (this.#ending && this.#outstanding.size === 0) return;
    const seq = Atomics.load(this.#current, 0);
    const { started } = end.facts;
    const jobs = [...this.#outstanding.values()];
    // Between two messages, as when the results do not fit into memory, only a message alone is told for certain.
    const culprit = this.#outstanding.get(seq) ?? (jobs.length === 1 ? jobs[0] : undefined);
    this.#outstanding.clear();
    const known = culprit !== undefined && started;
    this.events.ended({
      culprit: known ? { job: culprit, reason: reasonOfEnd(end) } : null,
      left: known
        ? jobs.filter((job) => job !== culprit)
        : jobs.map((job) => ({ ...job, alone: job.alone || started })),
      end,
    });
  }
}
