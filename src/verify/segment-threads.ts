import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { FileLayer } from '../archive/files/file-layer.ts';
import { rethrown } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import { checkSegment } from './check-segment.ts';
import { foundInStructure } from './grown-catalog.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import type { MessagesJob, SegmentJob, SegmentReport } from './segment-report.ts';
import type { ThreadAnswer, ThreadJob } from './thread-protocol.ts';

/** Reads what an archive is made of, several pieces at a time where there are threads. */
export interface SegmentChecker {
  /** How many are worth asking for at a time. */
  readonly width: number;
  /** What a file of the log says, while it is read. Its failure comes to who takes the reports. */
  check(job: SegmentJob): AsyncIterable<SegmentReport>;
  /** Those messages that could not be rebuilt, or are not what they should be. */
  rebuild(job: MessagesJob): Promise<readonly MessageId[]>;
  /** What SQLite finds wrong in the file of an archive's catalog. */
  structure(dir: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** More threads wait for the disk, and each holds what one segment says. */
const MOST_THREADS = 4;

/** Reads on this thread, through any files. */
export function checkerInProcess(files: FileLayer): SegmentChecker {
  return {
    width: 1,
    async *check(job) {
      await nextTurn();
      yield* checkSegment(files, job);
    },
    rebuild: (job) => rebuildMessages(files, job),
    structure: async (dir) => foundInStructure(dir),
    async close() {},
  };
}

/** Reads on threads of their own, which start when they are first needed. */
export function checkerOnThreads(
  threads = Math.min(MOST_THREADS, availableParallelism()),
  workerFile: URL = verifyWorkerFile(),
): SegmentChecker {
  const pool = new Pool(threads, workerFile);
  return {
    width: threads,
    check(job) {
      const reports = new Readable({ objectMode: true, read() {} });
      // The consumer of the reports gets the error; until then it must not count as unhandled.
      reports.on('error', () => undefined);
      pool
        .run({ what: 'segment', job }, (report) => reports.push(report))
        .then(
          () => reports.push(null),
          (error: unknown) => reports.destroy(error instanceof Error ? error : rethrownOf(error)),
        );
      return reports;
    },
    rebuild: (job) => pool.run({ what: 'messages', job }),
    structure: (dir) => pool.run({ what: 'structure', dir }),
    close: () => pool.end(),
  };
}

function rethrownOf(error: unknown): Error {
  return rethrown({ message: String(error), code: '' });
}

type Take = (report: SegmentReport) => void;

/** Jobs wait for a thread in the order in which they came. */
class Pool {
  readonly #idle: Thread[] = [];
  readonly #waiting: ((thread: Thread) => void)[] = [];
  readonly #all: Thread[] = [];

  constructor(
    private readonly most: number,
    private readonly file: URL,
  ) {}

  async run(job: ThreadJob, take: Take = () => undefined): Promise<readonly string[]> {
    const thread = await this.#free();
    try {
      return await thread.run(job, take);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(thread);
      else next(thread);
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#all.map((thread) => thread.end()));
  }

  #free(): Promise<Thread> {
    const ready = this.#idle.pop();
    if (ready !== undefined) return Promise.resolve(ready);
    if (this.#all.length < this.most) {
      const started = new Thread(this.file);
      this.#all.push(started);
      return Promise.resolve(started);
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

interface Asked {
  readonly take: Take;
  readonly resolve: (found: readonly string[]) => void;
  readonly reject: (error: unknown) => void;
}

/** One thread, one job at a time. */
class Thread {
  readonly #worker: Worker;
  #asked: Asked | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(file: URL) {
    this.#worker = new Worker(file);
    this.#worker.on('message', (answer: ThreadAnswer) => {
      if ('report' in answer) {
        this.#asked?.take(answer.report);
        return;
      }
      const asked = this.#asked;
      this.#asked = undefined;
      if ('found' in answer) asked?.resolve(answer.found);
      else asked?.reject(rethrown(answer.thrown));
    });
    const failed = (error: unknown): void => {
      this.#failure ??= { error };
      this.#asked?.reject(error);
      this.#asked = undefined;
    };
    this.#worker.on('error', failed);
    this.#worker.on('exit', (code) => failed(new Error(`a verifying thread ended with ${code}`)));
  }

  run(job: ThreadJob, take: Take): Promise<readonly string[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => {
      this.#asked = { take, resolve, reject };
      this.#worker.postMessage(job);
    });
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** Returns the worker next to the running bundle, or the one in dist/ when the sources run unbundled. */
function verifyWorkerFile(): URL {
  const sources = import.meta.url.endsWith('.ts');
  return new URL(sources ? '../../dist/verify-worker.js' : './verify-worker.js', import.meta.url);
}
