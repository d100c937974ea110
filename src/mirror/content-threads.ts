import { fetching, type SegmentStore } from '../archive/read/segment-store.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import { statusRefusal } from '../mailbox-surface/refusal.ts';
import { JobPool } from '../threads/job-pool.ts';
import { builtWorker } from '../threads/worker-thread.ts';
import type { ContentJob, ContentResult } from './content-job.ts';

/** Sources lie outside of V8's heap; a parsed message is several times its text. MiB. */
const HEAP = { oldGenerationMb: 256, youngGenerationMb: 24 };

type ResultOf<Job extends ContentJob> = Extract<ContentResult, { kind: Job['kind'] }>;
type Lane = JobPool<ContentJob, ContentResult>;

/** Reads sources for the mirror, a job a thread at a time. What takes too long ends with its thread. */
export class ContentThreads {
  readonly #all: Lane[] = [];
  readonly #idle: Lane[] = [];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  #closed = false;

  /**
   * @param most threads
   * @param deadlineMs of one job, in milliseconds
   * @param segments where segments are that are not in the folder; without it, all are
   */
  constructor(
    private readonly most: number,
    private readonly deadlineMs: number,
    private readonly segments?: SegmentStore,
    private readonly file = builtWorker('content-worker'),
  ) {}

  /**
   * Does a job.
   *
   * @param make returns the job when a thread is free, or throws where it is too late for it
   * @throws Refusal 502 where it took too long or more memory than a thread may have; what the job throws
   */
  async run<Job extends ContentJob>(make: () => Job): Promise<ResultOf<Job>> {
    const { segments } = this;
    if (segments === undefined) return this.#run(make);
    return fetching(segments, () => this.#run(() => ({ ...make(), isPartial: true })));
  }

  async #run<Job extends ContentJob>(make: () => Job): Promise<ResultOf<Job>> {
    const lane = await this.#lane();
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    try {
      if (this.#closed) throw statusRefusal(503, undefined, undefined);
      timer = setTimeout(() => {
        isLate = true;
        void lane.end();
      }, this.deadlineMs);
      const result = await lane.run(make());
      // A job answers in its own kind.
      return result as ResultOf<Job>;
    } catch (error) {
      if (isLate || hasCode(error, 'thread-ended'))
        throw statusRefusal(502, 'ERR_TOO_EXPENSIVE', undefined);
      throw error;
    } finally {
      clearTimeout(timer);
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(lane);
      else next(lane);
    }
  }

  /** Ends the threads, also those that are busy, and whatever waits for one. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all.map((lane) => lane.end()));
  }

  async #lane(): Promise<Lane> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#all.length < this.most) {
      const lane: Lane = new JobPool(1, {
        name: 'mailkeep-content',
        file: this.file,
        heap: HEAP,
        silent: true,
      });
      this.#all.push(lane);
      return lane;
    }
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }
}
