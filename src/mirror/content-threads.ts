import { hasCode } from '../errors/mailkeep-error.ts';
import { statusRefusal } from '../mailbox-surface/refusal.ts';
import { JobPool } from '../threads/job-pool.ts';
import { builtWorker } from '../threads/worker-thread.ts';
import type { ContentJob, ContentResult } from './content-job.ts';

/** Sources lie outside of V8's heap; a parsed message is several times its text. MiB. */
const HEAP = { oldGenerationMb: 256, youngGenerationMb: 24 };
/** Threads at most: one may be busy with a search while another renders a message. */
const THREADS = 2;

type ResultOf<Job extends ContentJob> = Extract<ContentResult, { kind: Job['kind'] }>;

/** Reads sources for the mirror, a job a thread at a time. What takes too long ends with its thread. */
export class ContentThreads {
  readonly #lanes: JobPool<ContentJob, ContentResult>[] = [];
  readonly #waiting: ((lane: JobPool<ContentJob, ContentResult>) => void)[] = [];
  #made = 0;

  constructor(
    private readonly deadlineMs: number,
    private readonly file = builtWorker('content-worker'),
  ) {}

  /**
   * Does a job.
   *
   * @throws Refusal 502 where it took too long or more memory than a thread may have; what the job throws
   */
  async run<Job extends ContentJob>(job: Job): Promise<ResultOf<Job>> {
    const lane = await this.#lane();
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    try {
      timer = setTimeout(() => {
        isLate = true;
        void lane.end();
      }, this.deadlineMs);
      const result = await lane.run(job);
      // A job answers in its own kind.
      return result as ResultOf<Job>;
    } catch (error) {
      if (isLate || hasCode(error, 'thread-ended'))
        throw statusRefusal(502, 'ERR_TOO_EXPENSIVE', undefined);
      throw error;
    } finally {
      clearTimeout(timer);
      const next = this.#waiting.shift();
      if (next === undefined) this.#lanes.push(lane);
      else next(lane);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.end()));
  }

  async #lane(): Promise<JobPool<ContentJob, ContentResult>> {
    const idle = this.#lanes.pop();
    if (idle !== undefined) return idle;
    if (this.#made < THREADS) {
      this.#made += 1;
      return new JobPool(1, {
        name: 'mailkeep-content',
        file: this.file,
        heap: HEAP,
        silent: true,
      });
    }
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }
}
