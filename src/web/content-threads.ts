import { Semaphore } from '../core/concurrency.ts';
import { hasCode } from '../core/errors.ts';
import { builtWorker, JobPool } from '../core/worker-thread.ts';
import { rateLimited, statusRefusal } from '../service/surface.ts';
import type { ServedArchive } from './served-archive.ts';
import type { ResultOf, SourceJob } from './source-jobs.ts';

/** In MiB. Sources are held outside V8's heap, but a parsed message takes several times the size of its text. */
const HEAP = { oldGenerationMb: 256, youngGenerationMb: 24 };

export interface ContentJob {
  readonly job: SourceJob;
  readonly dataDir: string;
}

/** Runs jobs that read sources, one at a time per thread. */
export class ContentThreads {
  readonly #turns: Semaphore;
  readonly #pool: JobPool<ContentJob, unknown>;
  #closed = false;

  /** @param most maximum number of threads @param jobMs time limit for each job, in milliseconds */
  constructor(
    private readonly archive: Pick<ServedArchive, 'dataDir'>,
    most: number,
    jobMs: number,
    file = builtWorker('content-worker'),
  ) {
    this.#turns = new Semaphore(most);
    const settings = { name: 'mailkeep-content', file, heap: HEAP, silent: true, jobMs };
    this.#pool = new JobPool(most, settings);
  }

  /**
   * @param make creates the job once a thread is free; throws if it is too late
   * @throws Refusal 502 if the job exceeds its thread's time or memory limit; any error from the job
   */
  async run<Job extends SourceJob>(make: () => Job): Promise<ResultOf<Job>> {
    const { dataDir } = this.archive;
    const result = await this.#turns.run(() => this.#run(() => ({ job: make(), dataDir })));
    // The result's kind matches the job's.
    return result as ResultOf<Job>;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool.end();
  }

  async #run(make: () => ContentJob): Promise<unknown> {
    if (this.#closed) throw statusRefusal(503, undefined, undefined);
    const job = make();
    try {
      return await this.#pool.run(job);
    } catch (error) {
      if (hasCode(error, 'thread-ended')) throw statusRefusal(502, 'ERR_TOO_EXPENSIVE', undefined);
      throw error;
    }
  }
}

const AT_ONCE = 8;
/** Maximum waiting requests per token: fewer than the listener's connections, so that other clients can connect. */
const MAX_WAITING = 120;
const MAX_SEARCHES = 60;

export class TokenQueue {
  readonly #lines = new Map<string, ReturnType<typeof newLine>>();

  /** Waits for a turn, and resolves to a function that ends it. @throws Refusal 429 if too many requests are waiting */
  async enter(token: string): Promise<() => void> {
    const line = this.#lines.get(token) ?? newLine();
    this.#lines.set(token, line);
    if (line.answering < AT_ONCE) line.answering += 1;
    else {
      if (line.waiting.length >= MAX_WAITING)
        throw rateLimited(
          'ERR_RATE_LIMIT',
          'Too many requests of this token wait for an answer',
          1,
        );
      await new Promise<void>((resolve) => line.waiting.push(resolve));
    }
    let isDone = false;
    return () => {
      if (!isDone) this.#leave(token, line);
      isDone = true;
    };
  }

  /**
   * Runs a search for a request that holds a turn. Each token runs one search at a time, in order of arrival. The
   * request releases its turn during the search, and takes the next free one afterwards.
   *
   * @throws Refusal 429 if too many searches are waiting
   */
  async alone<T>(token: string, act: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(token) ?? newLine();
    if (line.searching >= MAX_SEARCHES)
      throw rateLimited('ERR_RATE_LIMIT', 'Too many searches of this token wait for an answer', 1);
    line.searching += 1;
    this.#leave(token, line);
    const search = line.lastSearch.then(act);
    line.lastSearch = search.catch(() => undefined);
    try {
      return await search;
    } finally {
      if (line.answering < AT_ONCE) line.answering += 1;
      else await new Promise<void>((resolve) => line.waiting.unshift(resolve));
      line.searching -= 1;
    }
  }

  #leave(token: string, line: ReturnType<typeof newLine>): void {
    const next = line.waiting.shift();
    if (next !== undefined) next();
    else line.answering -= 1;
    if (line.answering + line.searching === 0) this.#lines.delete(token);
  }
}

function newLine() {
  const waiting: (() => void)[] = [];
  const lastSearch: Promise<unknown> = Promise.resolve();
  /** `searching` counts requests that have released their turn for a search. */
  return { answering: 0, searching: 0, waiting, lastSearch };
}
