import { availableParallelism } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { FileLayer } from '../archive/file-layer.ts';
import { checkSegment } from './check-segment.ts';
import type { SegmentJob, SegmentReport } from './segment-report.ts';
import { rethrown, type ThreadAnswer } from './thread-protocol.ts';

/** Reads segments, several at a time where there are threads. */
export interface SegmentChecker {
  /** How many are worth asking for at a time. */
  readonly width: number;
  check(job: SegmentJob): Promise<readonly SegmentReport[]>;
  close(): Promise<void>;
}

/** More threads wait for the disk, and each holds what one segment says. */
const MOST_THREADS = 4;

/** Reads segments on this thread, through any files. */
export function checkerInProcess(files: FileLayer): SegmentChecker {
  return {
    width: 1,
    async check(job) {
      await nextTurn();
      return [...checkSegment(files, job)];
    },
    async close() {},
  };
}

/** Reads segments on threads of their own, which start when they are first needed. */
export function checkerOnThreads(
  threads = Math.min(MOST_THREADS, availableParallelism()),
  workerFile: URL = verifyWorkerFile(),
): SegmentChecker {
  const idle: Thread[] = [];
  const waiting: ((thread: Thread) => void)[] = [];
  const all: Thread[] = [];
  const free = (): Promise<Thread> => {
    const ready = idle.pop();
    if (ready !== undefined) return Promise.resolve(ready);
    if (all.length < threads) {
      const started = new Thread(workerFile);
      all.push(started);
      return Promise.resolve(started);
    }
    return new Promise((resolve) => waiting.push(resolve));
  };
  return {
    width: threads,
    async check(job) {
      const thread = await free();
      try {
        return await thread.run(job);
      } finally {
        const next = waiting.shift();
        if (next === undefined) idle.push(thread);
        else next(thread);
      }
    },
    async close() {
      await Promise.all(all.map((thread) => thread.end()));
    },
  };
}

/** One thread, one segment at a time. */
class Thread {
  readonly #worker: Worker;
  #settle:
    | {
        readonly resolve: (reports: readonly SegmentReport[]) => void;
        readonly reject: (error: unknown) => void;
      }
    | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(file: URL) {
    this.#worker = new Worker(file);
    this.#worker.on('message', (answer: ThreadAnswer) => {
      const settle = this.#settle;
      this.#settle = undefined;
      if ('reports' in answer) settle?.resolve(answer.reports);
      else settle?.reject(rethrown(answer.thrown));
    });
    const failed = (error: unknown): void => {
      this.#failure ??= { error };
      this.#settle?.reject(error);
      this.#settle = undefined;
    };
    this.#worker.on('error', failed);
    this.#worker.on('exit', (code) => failed(new Error(`a verifying thread ended with ${code}`)));
  }

  run(job: SegmentJob): Promise<readonly SegmentReport[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#worker.postMessage(job);
    });
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** Beside the bundle that runs, or in dist/ when the sources run as they are. */
function verifyWorkerFile(): URL {
  const sources = import.meta.url.endsWith('.ts');
  return new URL(sources ? '../../dist/verify-worker.js' : './verify-worker.js', import.meta.url);
}
