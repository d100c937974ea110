import { rethrown } from '../errors/mailkeep-error.ts';
import type { ThreadEnded } from '../errors/threads.ts';
import type { JobMessage } from './in-thread.ts';
import { type ThreadSettings, WorkerThread } from './worker-thread.ts';

interface Running<Result, Report> {
  readonly take: (report: Report) => void;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Threads that each do one job at a time. They start when they are first needed; one that ended is replaced. Jobs wait
 * for a thread in the order in which they came. Their other side is `serveJobs`.
 */
export class JobPool<Job, Result, Report = never> {
  readonly #threads = new Set<JobThread<Job, Result, Report>>();
  readonly #idle: JobThread<Job, Result, Report>[] = [];
  readonly #waiting: ((thread: JobThread<Job, Result, Report>) => void)[] = [];

  constructor(
    private readonly most: number,
    private readonly settings: ThreadSettings,
  ) {}

  /**
   * Does a job on a thread and hands its reports to `take` as they come.
   *
   * @throws what the job throws: errors of ours as they were, others with their message and code; `thread-ended`
   */
  async run(job: Job, take: (report: Report) => void = () => undefined): Promise<Result> {
    const thread = await this.#free();
    try {
      return await thread.run(job, take);
    } finally {
      this.#release(thread);
    }
  }

  /** Starts threads that jobs will need soon, as many as that in all; starting one takes some 60 ms. */
  start(threads: number): void {
    while (this.#threads.size < Math.min(threads, this.most)) this.#idle.push(this.#start());
  }

  /**
   * Ends all threads. Jobs in progress fail with `thread-ended`, and so do those that wait for a thread; a job that is
   * asked for later starts a new thread.
   */
  async end(): Promise<void> {
    const threads = [...this.#threads];
    this.#threads.clear();
    this.#idle.length = 0;
    await Promise.all(threads.map((thread) => thread.end()));
  }

  async #free(): Promise<JobThread<Job, Result, Report>> {
    const ready = this.#idle.pop();
    if (ready !== undefined) return this.#unlessEnded(ready);
    if (this.#threads.size < this.most) return this.#start();
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }

  #release(thread: JobThread<Job, Result, Report>): void {
    const next = this.#waiting.shift();
    // One that `end` dropped fails whatever waited for it.
    const dropped = !this.#threads.has(thread);
    if (next !== undefined) next(dropped ? thread : this.#unlessEnded(thread));
    else if (!dropped) this.#idle.push(thread);
  }

  /** A thread may end while it has nothing to do. */
  #unlessEnded(thread: JobThread<Job, Result, Report>): JobThread<Job, Result, Report> {
    if (!thread.ending) return thread;
    this.#threads.delete(thread);
    return this.#start();
  }

  #start(): JobThread<Job, Result, Report> {
    const started = new JobThread<Job, Result, Report>(this.settings);
    this.#threads.add(started);
    return started;
  }
}

class JobThread<Job, Result, Report> {
  readonly #thread: WorkerThread<Job, JobMessage<Result, Report>>;
  #running: Running<Result, Report> | null = null;
  #end: ThreadEnded | null = null;

  constructor(settings: ThreadSettings) {
    this.#thread = new WorkerThread(settings, {
      message: (message) => {
        if ('report' in message) this.#running?.take(message.report);
        else if ('result' in message) this.#settle(({ resolve }) => resolve(message.result));
        else this.#settle(({ reject }) => reject(rethrown(message.thrown)));
      },
      ended: (end) => {
        this.#end = end;
        this.#settle(({ reject }) => reject(end));
      },
    });
  }

  get ending(): boolean {
    return this.#thread.ending;
  }

  run(job: Job, take: (report: Report) => void): Promise<Result> {
    if (this.#end !== null) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#running = { take, resolve, reject };
      this.#thread.post(job);
    });
  }

  end(): Promise<void> {
    return this.#thread.end();
  }

  #settle(act: (running: Running<Result, Report>) => void): void {
    const running = this.#running;
    this.#running = null;
    if (running !== null) act(running);
  }
}
