import { fileURLToPath } from 'node:url';
import { type Transferable, Worker } from 'node:worker_threads';
import { type ThreadEndCause, type ThreadEnded, threadEnded } from '../errors/threads.ts';
import { type FromThread, READY } from './in-thread.ts';
import { holdOldGeneration } from './old-generation.ts';
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
}

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
  #deadline: NodeJS.Timeout | null = null;

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
      if (message !== READY) {
        events.message(message);
        return;
      }
      this.#started = true;
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

  /** Ends the thread with `timeout` after `ms` milliseconds, unless `disarm` or another deadline comes first. */
  setDeadline(ms: number): void {
    this.disarm();
    this.#deadline = setTimeout(() => this.stop('timeout'), ms);
  }

  disarm(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = null;
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
