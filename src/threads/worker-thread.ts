import { fileURLToPath } from 'node:url';
import { type Transferable, Worker } from 'node:worker_threads';
import { type ThreadEndCause, type ThreadEnded, threadEnded } from '../errors/threads.ts';
import type { FromThread } from './in-thread.ts';
import { holdOldGeneration } from './old-generation.ts';
import { meterOf, type WorkMeter } from './work-meter.ts';
import { holdYoungGeneration, widenYoungGeneration } from './young-generation.ts';

/** V8's heap in one thread, MiB: old generation, and young generation (three semi-spaces). Buffers lie outside. */
export interface HeapLimits {
  readonly oldGenerationMb: number;
  readonly youngGenerationMb: number;
}

export interface ThreadSettings {
  /** Names the thread in errors and in process listings. */
  readonly name: string;
  /** The built worker; see `builtWorker`. */
  readonly file: URL;
  /** What the worker finds in `workerData`. */
  readonly data?: unknown;
  /** Without it, the heap may grow as the main thread's may. */
  readonly heap?: HeapLimits;
  /** Discards what the thread prints, such as the complaints of a parser. */
  readonly silent?: boolean;
  /** A number that changes when the thread turns to other work, which has the limit to itself; 0 between two. */
  readonly workNumber?: () => number;
}

/** Milliseconds between two looks at a thread that has a limit. */
const TICK_MS = 100;

export interface ThreadEvents<Out> {
  message(message: Out): void;
  /** Called once, after the last message, when the thread is gone: for whatever reason, `end` included. */
  ended(end: ThreadEnded): void;
  /** The thread has loaded and listens to its port. What was posted before waits for it there. */
  started?(): void;
}

/**
 * One worker thread: takes messages `In`, answers with messages `Out`, and reports why it ended. Its other side is
 * `openThreadPort`. Keeps the process alive until `unref`.
 */
export class WorkerThread<In, Out extends object> {
  readonly #worker: Worker;
  #started = false;
  #reason: ThreadEndCause | null = null;
  #thrown: unknown;
  #meter: WorkMeter | null = null;
  /** Milliseconds of work; null for a thread without a limit. */
  #limitMs: number | null = null;
  #ticks: NodeJS.Timeout | null = null;
  #workNumber = 0;

  constructor(
    private readonly settings: ThreadSettings,
    events: ThreadEvents<Out>,
  ) {
    const { name, file, data, heap, silent = false } = settings;
    widenYoungGeneration();
    this.#worker = new Worker(file, {
      name,
      workerData: data,
      // Loaders and inspectors of the main thread have no business here.
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
    // Not earlier: Node.js 22 forgets the settings when it makes the heap of a thread.
    this.#worker.once('online', () => {
      holdYoungGeneration();
      holdOldGeneration();
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
      this.#meter = meterOf(this.#worker, message);
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

  /** True once the thread has loaded and listens to its port. */
  get started(): boolean {
    return this.#started;
  }

  /** True as soon as the thread is being ended, by the host or by itself, and after: it takes no more work. */
  get ending(): boolean {
    return this.#reason !== null;
  }

  /** Sends a message; a thread that loads takes it when it has loaded. The buffers in `transfer` are given away. */
  post(message: In, transfer: readonly Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  /**
   * Ends the thread with `timeout` once it has worked for `ms` milliseconds from now, or has waited as long for something
   * other than a processor; unless `disarm` or another limit comes first. What it takes to load does not count.
   */
  limitWork(ms: number): void {
    this.disarm();
    this.#limitMs = ms;
    this.#startTicks();
  }

  /** Lifts the limit. Returns the milliseconds of work since it was set. */
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

  /** Ends the thread because its work costs too much; returns at once, and `ended` follows. */
  stop(reason: 'memory' | 'timeout'): void {
    this.#reason ??= reason;
    this.disarm();
    void this.#worker.terminate();
  }

  /** Ends the thread. Resolves when it is gone and its memory is free, also if it had ended already. */
  async end(): Promise<void> {
    this.#reason ??= 'closed';
    this.disarm();
    await this.#worker.terminate();
  }

  /** Keeps the process alive while the thread lives. */
  ref(): void {
    this.#worker.ref();
  }

  /** Lets the process end although the thread lives. */
  unref(): void {
    this.#worker.unref();
  }

  #fail(error: unknown): void {
    this.#thrown ??= error;
    this.#reason ??= isOutOfMemory(error) ? 'memory' : 'thrown';
    void this.#worker.terminate();
  }

  #ended(code: number): ThreadEnded {
    const { name, file } = this.settings;
    this.#reason ??= 'exited';
    const facts = {
      thread: name,
      file: fileURLToPath(file),
      reason: this.#reason,
      started: this.#started,
      detail: this.#thrown === undefined ? `exit code ${code}` : messageOf(this.#thrown),
    };
    return threadEnded(facts, this.#thrown);
  }
}

/**
 * Returns the file of a built worker by its name in the build: next to the bundle that runs, or in dist/ when the
 * sources run unbundled (`npm run build` makes it).
 */
export function builtWorker(name: string): URL {
  const sources = import.meta.url.endsWith('.ts');
  return new URL(sources ? `../../dist/${name}.js` : `./${name}.js`, import.meta.url);
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
