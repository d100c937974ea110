import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { type Transferable, Worker } from 'node:worker_threads';
import { type ThreadEndCause, type ThreadEnded, threadError } from './error-tables.ts';
import { deserializeError, errnoName, serializeError } from './errors.ts';
import type { FromThread, JobMessage } from './in-thread.ts';

/**
 * Lets every heap in this process grow by 60% before a collection. By default, V8 lets a small heap grow fourfold: a
 * mostly idle server then retains about 100 MB of garbage, and a first sync 50 MB, for almost no saving in processor
 * time. A lower number takes more time and frees no more memory. V8 reads the setting at each collection.
 */
export function slowOldGenerationGrowth(): void {
  setFlagsFromString('--heap-growing-percent=60');
}

interface CpuSample {
  /** Processor time used by the thread since it started, in milliseconds. */
  readonly cpuMs: number;
  /** False for a waiting thread, unless it is waiting for a processor. */
  readonly isRunning: boolean;
}

/**
 * Measures one thread's processor time by regular sampling. Stopped processes, paused machines and throttled containers
 * add nothing. If processor time is unavailable, each sample counts as one planned interval, even if it is late.
 */
export class WorkMeter {
  #previous: CpuSample | null = null;
  #workedMs = 0;
  #waitedMs = 0;

  /** @param look undefined if processor time is unavailable */
  constructor(private readonly look: (() => CpuSample | null) | undefined) {}

  get workedMs(): number {
    return this.#workedMs;
  }

  /** Milliseconds since `restart` during which the thread could have run but was idle. */
  get waitedMs(): number {
    return this.#waitedMs;
  }

  restart(): void {
    this.#previous = this.look?.() ?? null;
    this.#workedMs = 0;
    this.#waitedMs = 0;
  }

  /**
   * Takes a sample.
   * @param sinceMs planned interval between samples; 0 for an extra sample
   */
  tick(sinceMs: number): void {
    if (this.look === undefined) {
      this.#workedMs += sinceMs;
      return;
    }
    const now = this.look();
    const previous = this.#previous;
    this.#previous = now ?? previous;
    const workMs = now === null || previous === null ? 0 : now.cpuMs - previous.cpuMs;
    this.#workedMs += workMs;
    if (workMs === 0 && now?.isRunning !== true) this.#waitedMs += sinceMs;
  }
}

/** USER_HZ, which is 100 on every architecture that Node.js runs on. */
const MS_PER_CLOCK_TICK = 10;

/**
 * Returns a meter for a running thread.
 * @param task the thread's path under /proc on Linux; empty elsewhere
 */
function createMeter(worker: Worker, task: string): WorkMeter {
  if (task !== '') return new WorkMeter(() => sampleTask(task));
  // Since Node.js 24.6. /proc is preferred, because the thread itself answers this and cannot during native code.
  if (!('cpuUsage' in worker)) return new WorkMeter(undefined);
  let latest: CpuSample | null = null;
  let isPending = false;
  return new WorkMeter(() => {
    if (!isPending) {
      isPending = true;
      worker
        .cpuUsage()
        .then(({ user, system }) => {
          latest = { cpuMs: (user + system) / 1000, isRunning: false };
        })
        // The thread has exited.
        .catch(() => undefined)
        .finally(() => {
          isPending = false;
        });
    }
    return latest;
  });
}

/** Returns null if the thread has exited. */
function sampleTask(task: string): CpuSample | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${task}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The thread's name, in brackets, can contain any character (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, user, system] = [fields[0], Number(fields[11]), Number(fields[12])];
  return { cpuMs: (user + system) * MS_PER_CLOCK_TICK, isRunning: state !== 'S' };
}

/**
 * Keeps the young generation of every heap at its initial size. V8 doubles it under load, to 67 MB in Node.js 24 if the
 * machine has enough memory, which dominates the memory of a multithreaded process. Without this setting, a first sync
 * of 10,000 messages takes the same processor time but 50 MB more memory. V8 reads the setting before enlarging a heap.
 * `HeapLimits` still apply.
 */
export function fixYoungGeneration(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Initial MiB of each half of a thread's young generation. Must cover its working set, because `fixYoungGeneration`
 * prevents growth. Indexing seven messages fills V8's default of 1 MiB, and early collections promote live objects to
 * the old generation. In five pairs of first syncs of 5,000 messages, 4 MiB took 3 to 7% less processor time and no
 * more memory. `HeapLimits` still apply.
 */
const FIRST_SEMI_SPACE_MB = 4;

/** V8 heap limits of a thread in MiB: old generation, and young generation (three semi-spaces). Excludes buffers. */
export interface HeapLimits {
  readonly oldGenerationMb: number;
  readonly youngGenerationMb: number;
}

interface ThreadSettings {
  /** Thread name in errors and process listings. */
  readonly name: string;
  /** The built worker (see `builtWorker`). */
  readonly file: URL;
  readonly data?: unknown;
  /** Defaults to the main thread's limits. */
  readonly heap?: HeapLimits;
  /** Discards the thread's output, for example parser warnings. */
  readonly silent?: boolean;
  /** Returns a number that changes whenever the thread starts a task, which restarts the limit; 0 between tasks. */
  readonly workNumber?: () => number;
}

const TICK_MS = 100;

export interface ThreadEvents<Out> {
  message(message: Out): void;
  /** Called once, after the last message, when the thread has exited for any reason, including a call to `end`. */
  ended(end: ThreadEnded): void;
  /** Called when the thread has loaded and is listening on its port, where earlier posts are waiting. */
  started?(): void;
}

/** A worker thread, the host's counterpart of `openThreadPort`. Keeps the process alive until `unref`. */
export class WorkerThread<In, Out extends object> {
  readonly #worker: Worker;
  #started = false;
  #reason: ThreadEndCause | null = null;
  #thrown: unknown;
  #meter: WorkMeter | null = null;
  #limitMs: number | null = null;
  #ticks: NodeJS.Timeout | null = null;
  #workNumber = 0;

  constructor(
    private readonly settings: ThreadSettings,
    events: ThreadEvents<Out>,
  ) {
    const { name, file, data, heap, silent = false } = settings;
    setFlagsFromString(`--min-semi-space-size=${FIRST_SEMI_SPACE_MB}`);
    this.#worker = new Worker(file, {
      name,
      workerData: data,
      // The worker must not inherit the main thread's loaders and inspectors.
      execArgv: [],
      stdout: silent,
      stderr: silent,
      ...(heap !== undefined && {
        resourceLimits: {
          maxOldGenerationSizeMb: heap.oldGenerationMb,
          maxYoungGenerationSizeMb: heap.youngGenerationMb,
        },
      }),
    });
    // Not set earlier, because Node.js 22 resets the settings when it creates a thread's heap.
    this.#worker.once('online', () => {
      fixYoungGeneration();
      slowOldGenerationGrowth();
    });
    if (silent) {
      this.#worker.stdout.resume();
      this.#worker.stderr.resume();
    }
    this.#worker.on('message', (message: FromThread<Out>) => {
      if (typeof message !== 'string') {
        events.message(message);
        return;
      }
      this.#started = true;
      this.#meter = createMeter(this.#worker, message);
      this.#startTicks();
      events.started?.();
    });
    this.#worker.on('messageerror', (error) => this.#fail(error));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', (code) => {
      this.disarm();
      events.ended(this.#ended(code));
    });
  }

  /** True once the thread has loaded and is listening on its port. */
  get started(): boolean {
    return this.#started;
  }

  get ending(): boolean {
    return this.#reason !== null;
  }

  /** Sends a message. A thread that is still loading receives it later. Transfers the buffers in `transfer`. */
  post(message: In, transfer: readonly Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  /**
   * Terminates the thread with `timeout` after `ms` milliseconds of work or of idle waiting, unless `disarm` or another
   * limit comes first. Loading time does not count.
   */
  limitWork(ms: number): void {
    this.disarm();
    this.#limitMs = ms;
    this.#startTicks();
  }

  /** Lifts the limit, and returns the milliseconds of work since it was set. */
  disarm(): number {
    if (this.#ticks !== null) clearInterval(this.#ticks);
    if (this.#limitMs !== null) this.#meter?.tick(0);
    this.#ticks = null;
    this.#limitMs = null;
    return this.#meter?.workedMs ?? 0;
  }

  #startTicks(): void {
    const limit = this.#limitMs;
    const meter = this.#meter;
    if (limit === null || meter === null) return;
    meter.restart();
    const every = Math.min(TICK_MS, Math.max(10, limit / 8));
    this.#ticks = setInterval(() => {
      const { workNumber } = this.settings;
      if (workNumber !== undefined) {
        const number = workNumber();
        if (number === 0 || number !== this.#workNumber) {
          this.#workNumber = number;
          meter.restart();
          return;
        }
      }
      meter.tick(every);
      if (meter.workedMs >= limit || meter.waitedMs >= limit) this.stop('timeout');
    }, every);
  }

  /** Terminates the thread because its work costs too much. Returns immediately; `ended` is called later. */
  stop(reason: 'memory' | 'timeout'): void {
    this.#reason ??= reason;
    this.disarm();
    void this.#worker.terminate();
  }

  /** Terminates the thread. Resolves once it has exited and its memory is free, even if it exited earlier. */
  async end(): Promise<void> {
    this.#reason ??= 'closed';
    this.disarm();
    await this.#worker.terminate();
  }

  ref(): void {
    this.#worker.ref();
  }

  unref(): void {
    this.#worker.unref();
  }

  #fail(error: unknown): void {
    this.#thrown ??= error;
    const isOutOfMemory = errnoName(error) === 'ERR_WORKER_OUT_OF_MEMORY';
    this.#reason ??= isOutOfMemory ? 'memory' : 'thrown';
    void this.#worker.terminate();
  }

  #ended(code: number): ThreadEnded {
    const { name, file } = this.settings;
    const thrown = this.#thrown;
    this.#reason ??= 'exited';
    const facts = {
      thread: name,
      file: fileURLToPath(file),
      reason: this.#reason,
      started: this.#started,
      detail: thrown === undefined ? `exit code ${code}` : serializeError(thrown).message,
    };
    return threadError('thread-ended', facts, thrown);
  }
}

/** Returns the file of a built worker: next to the bundle, or in dist/ when running from source. */
export function builtWorker(name: string): URL {
  const sources = import.meta.url.endsWith('.ts');
  return new URL(sources ? `../../dist/${name}.js` : `./${name}.js`, import.meta.url);
}

interface Running<Result, Report> {
  readonly take: (report: Report) => void;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

interface PoolSettings extends ThreadSettings {
  /** Maximum duration of a job in milliseconds. A job that takes longer ends its thread. */
  readonly jobMs?: number;
}

/** Threads that run one job each and start on demand. Other jobs wait in a queue. Counterpart of `serveJobs`. */
export class JobPool<Job, Result, Report = never> {
  readonly #threads = new Set<JobThread<Job, Result, Report>>();
  readonly #idle: JobThread<Job, Result, Report>[] = [];
  readonly #waiting: ((thread: JobThread<Job, Result, Report>) => void)[] = [];

  constructor(
    private readonly most: number,
    private readonly settings: PoolSettings,
  ) {}

  /**
   * Runs a job on a thread and passes its reports to `take`.
   * @throws the job's errors: mailkeep errors unchanged, others with their message and code; `thread-ended`
   */
  async run(job: Job, take: (report: Report) => void = () => undefined): Promise<Result> {
    const thread = await this.#free();
    const { jobMs } = this.settings;
    const timer = jobMs && setTimeout(() => thread.thread.stop('timeout'), jobMs);
    try {
      return await thread.run(job, take);
    } finally {
      clearTimeout(timer);
      this.#release(thread);
    }
  }

  /** Starts threads before there are jobs, up to `threads` in total. Starting one takes about 60 ms. */
  start(threads: number): void {
    while (this.#threads.size < Math.min(threads, this.most)) this.#idle.push(this.#start());
  }

  /** Terminates all threads. Running and waiting jobs fail with `thread-ended`. Later jobs start new threads. */
  async end(): Promise<void> {
    const threads = [...this.#threads];
    this.#threads.clear();
    this.#idle.length = 0;
    await Promise.all(threads.map(({ thread }) => thread.end()));
  }

  async #free(): Promise<JobThread<Job, Result, Report>> {
    const ready = this.#idle.pop();
    if (ready !== undefined) return this.#replaceEnded(ready);
    if (this.#threads.size < this.most) return this.#start();
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }

  #release(thread: JobThread<Job, Result, Report>): void {
    const next = this.#waiting.shift();
    // If `end` dropped the thread, the waiting job fails.
    const isDropped = !this.#threads.has(thread);
    if (next !== undefined) next(isDropped ? thread : this.#replaceEnded(thread));
    else if (!isDropped) this.#idle.push(thread);
  }

  /** Replaces a thread that exited while idle. */
  #replaceEnded(thread: JobThread<Job, Result, Report>): JobThread<Job, Result, Report> {
    if (!thread.thread.ending) return thread;
    this.#threads.delete(thread);
    return this.#start();
  }

  #start(): JobThread<Job, Result, Report> {
    const thread = new JobThread<Job, Result, Report>(this.settings);
    this.#threads.add(thread);
    return thread;
  }
}

class JobThread<Job, Result, Report> {
  readonly thread: WorkerThread<Job, JobMessage<Result, Report>>;
  #running: Running<Result, Report> | null = null;
  #end: ThreadEnded | null = null;

  constructor(settings: ThreadSettings) {
    this.thread = new WorkerThread(settings, {
      message: (message) => {
        const running = this.#running;
        if ('report' in message) {
          running?.take(message.report);
          return;
        }
        this.#running = null;
        if ('result' in message) running?.resolve(message.result);
        else running?.reject(deserializeError(message.thrown));
      },
      ended: (end) => {
        this.#end = end;
        this.#running?.reject(end);
      },
    });
  }

  run(job: Job, take: (report: Report) => void): Promise<Result> {
    if (this.#end !== null) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#running = { take, resolve, reject };
      this.thread.post(job);
    });
  }
}
