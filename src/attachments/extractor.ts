import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { extractorClosed, mimeWorkerFailed } from '../errors/mime.ts';
import type {
  AttachmentExtractor,
  AttachmentFailure,
  AttachmentJob,
  AttachmentOutcome,
} from './attachment-text.ts';
import { ATTACHMENT_LIMITS, type AttachmentLimits } from './limits.ts';
import { attachmentWorkerFile } from './worker-file.ts';
import type { AttachmentWorkerData, FromWorker, ToWorker } from './worker-protocol.ts';

export interface AttachmentExtractorOptions {
  readonly limits?: Partial<AttachmentLimits>;
  /** The built worker, where it is not in its usual place. */
  readonly workerFile?: URL;
  /** Bytes the process takes. */
  readonly memory?: () => number;
}

/** Bytes of a source given to the worker at once. */
const PIECE = 256 * 1024;
/** How often the process's memory is looked at while an attachment is read. */
const WATCH_MS = 10;

/** Reads attachments in one worker thread, which is started when first needed and replaced when it had to be ended. */
export function openAttachmentExtractor(
  options: AttachmentExtractorOptions = {},
): AttachmentExtractor {
  const limits = { ...ATTACHMENT_LIMITS, ...options.limits };
  const workerFile = options.workerFile ?? attachmentWorkerFile();
  const memory = options.memory ?? (() => process.memoryUsage.rss());
  let thread: AttachmentThread | null = null;
  let previous: Promise<unknown> = Promise.resolve();
  let closed = false;
  const run = async (job: AttachmentJob): Promise<AttachmentOutcome> => {
    if (closed) throw extractorClosed();
    // Two threads at once would take the memory of two.
    if (thread?.ended === true) await thread.end();
    if (thread === null || thread.ended) thread = new AttachmentThread(workerFile, limits, memory);
    return await thread.run(job);
  };
  return {
    extract(job) {
      const outcome = previous.then(() => run(job));
      previous = outcome.catch(() => undefined);
      return outcome;
    },
    async close() {
      closed = true;
      await thread?.end();
    },
  };
}

interface Running {
  readonly resolve: (outcome: AttachmentOutcome) => void;
  readonly reject: (error: unknown) => void;
  readonly pieces: AsyncIterator<Uint8Array>;
}

/** One worker thread, the attachment it is on, and the watch over its time and memory. */
class AttachmentThread {
  ended = false;
  private readonly worker: Worker;
  private started = false;
  private running: Running | null = null;
  private waiting: ToWorker | null = null;
  private doom: AttachmentFailure | null = null;
  private cause: unknown = null;
  private deadline: NodeJS.Timeout | null = null;
  private watch: NodeJS.Timeout | null = null;

  constructor(
    private readonly workerFile: URL,
    private readonly limits: AttachmentLimits,
    private readonly memory: () => number,
  ) {
    const workerData: AttachmentWorkerData = { limits };
    this.worker = new Worker(workerFile, {
      name: 'mailkeep-attachments',
      workerData,
      execArgv: [],
      // Whatever a parser prints is no business of anybody's terminal.
      stdout: true,
      stderr: true,
      resourceLimits: {
        maxOldGenerationSizeMb: limits.oldGenerationMb,
        maxYoungGenerationSizeMb: limits.youngGenerationMb,
      },
    });
    this.worker.stdout.resume();
    this.worker.stderr.resume();
    this.worker.on('message', (message: FromWorker) => this.receive(message));
    this.worker.on('error', (error: Error) => {
      this.cause = error;
      this.ended = true;
      const memoryOut = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.doom ??= memoryOut ? 'memory' : 'malformed';
    });
    this.worker.on('exit', () => this.exited());
  }

  run({ form, number, source }: AttachmentJob): Promise<AttachmentOutcome> {
    return new Promise((resolve, reject) => {
      this.running = { resolve, reject, pieces: inPieces(source) };
      this.worker.ref();
      this.guard();
      const job: ToWorker = { kind: 'job', form, number };
      if (this.started) this.worker.postMessage(job);
      else this.waiting = job;
    });
  }

  async end(): Promise<void> {
    this.ended = true;
    await this.worker.terminate();
  }

  private receive(message: FromWorker): void {
    if (message.kind === 'ready') {
      this.started = true;
      if (this.waiting === null) return;
      // What loading took is not the attachment's doing.
      this.guard();
      this.worker.postMessage(this.waiting);
      this.waiting = null;
    } else if (message.kind === 'next') {
      this.feed().catch((error: unknown) => this.abandon(error));
    } else {
      this.settle(({ resolve }) => resolve(message.outcome));
      if (message.worn) void this.end();
    }
  }

  private async feed(): Promise<void> {
    const { running } = this;
    if (running === null) return;
    const { done, value } = await running.pieces.next();
    if (this.running !== running) return;
    if (done === true) {
      this.worker.postMessage({ kind: 'end' } satisfies ToWorker);
      return;
    }
    // A copy of its own, because it is given away.
    const bytes = new Uint8Array(value);
    this.worker.postMessage({ kind: 'piece', bytes } satisfies ToWorker, [bytes.buffer]);
  }

  /** The source failed: the worker is in the middle of a job that will not go on. */
  private abandon(error: unknown): void {
    this.settle(({ reject }) => reject(error));
    void this.end();
  }

  private settle(act: (running: Running) => void): void {
    const { running } = this;
    if (running === null) return;
    this.running = null;
    this.unguard();
    // An idle thread does not keep the process alive.
    this.worker.unref();
    void Promise.resolve(running.pieces.return?.()).catch(() => undefined);
    act(running);
  }

  private exited(): void {
    this.ended = true;
    if (!this.started) {
      const error = mimeWorkerFailed(fileURLToPath(this.workerFile), this.cause ?? this.doom);
      this.settle(({ reject }) => reject(error));
    } else if (this.doom !== null) {
      const reason = this.doom;
      this.settle(({ resolve }) => resolve({ status: 'failed', reason }));
    } else this.settle(({ reject }) => reject(extractorClosed()));
  }

  private guard(): void {
    this.unguard();
    this.deadline = setTimeout(() => this.stop('timeout'), this.limits.attachmentMs);
    // A thread that is ended while it loads looks like one that cannot start.
    if (!this.started) return;
    const ground = this.memory();
    this.watch = setInterval(() => {
      if (this.memory() - ground > this.limits.growthBytes) this.stop('memory');
    }, WATCH_MS);
  }

  private unguard(): void {
    if (this.deadline !== null) clearTimeout(this.deadline);
    if (this.watch !== null) clearInterval(this.watch);
    this.deadline = null;
    this.watch = null;
  }

  private stop(reason: AttachmentFailure): void {
    this.doom ??= reason;
    this.ended = true;
    this.unguard();
    void this.worker.terminate();
  }
}

async function* inPieces(
  source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += PIECE) yield chunk.subarray(at, at + PIECE);
  }
}
