import type { ThreadEnded } from '../core/error-tables.ts';
import { PieceFeed, type PieceMessage, postPiece } from '../core/in-thread.ts';
import { builtWorker, WorkerThread } from '../core/worker-thread.ts';
import type { AttachmentExtractor, AttachmentJob, AttachmentOutcome } from './attachment-text.ts';
import { ATTACHMENT_LIMITS, type AttachmentLimits } from './attachment-text.ts';
import { mailError, mimeWorkerFailed } from './errors.ts';
import { threadEndReason } from './extraction.ts';

export interface AttachmentWorkerData {
  readonly limits: AttachmentLimits;
}

export type ToWorker =
  | { readonly kind: 'job'; readonly form: string; readonly number: number | null }
  | PieceMessage;

export type FromWorker =
  /** Requests the next piece of the source. The worker first loads the code for the attachment's form. */
  | { readonly kind: 'next' }
  /** `worn` requests a new worker: this one uses too much memory, or its parser may still be running. */
  | { readonly kind: 'outcome'; readonly outcome: AttachmentOutcome; readonly worn: boolean };

/** Interval between memory checks while an attachment is being read. */
const WATCH_MS = 10;

/** Reads attachments in a worker thread that starts on demand and is replaced once terminated. */
export function openAttachmentExtractor(
  options: {
    readonly limits?: Partial<AttachmentLimits>;
    /** Defaults to the worker in the installed build. */
    readonly workerFile?: URL;
    readonly memory?: () => number;
  } = {},
): AttachmentExtractor {
  const limits = { ...ATTACHMENT_LIMITS, ...options.limits };
  const workerFile = options.workerFile ?? builtWorker('attachment-worker');
  const memory = options.memory ?? (() => process.memoryUsage.rss());
  let thread: AttachmentThread | null = null;
  let previous: Promise<unknown> = Promise.resolve();
  let closed = false;
  const run = async (job: AttachmentJob): Promise<AttachmentOutcome> => {
    if (closed) throw mailError('extractor-closed', {});
    // A second thread would double the memory use.
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
    rest() {
      const exit = previous.then(() => thread?.end());
      previous = exit.catch(() => undefined);
      return exit;
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
  readonly feed: PieceFeed;
  readonly limitMs: number;
  readonly worked: ((ms: number) => void) | undefined;
  isFed: boolean;
}

class AttachmentThread {
  readonly #thread: WorkerThread<ToWorker, FromWorker>;
  #running: Running | null = null;
  #watch: NodeJS.Timeout | null = null;

  constructor(
    file: URL,
    private readonly limits: AttachmentLimits,
    private readonly memory: () => number,
  ) {
    const data: AttachmentWorkerData = { limits };
    this.#thread = new WorkerThread(
      // Warnings printed by a parser must not reach the terminal.
      { name: 'mailkeep-attachments', file, data, heap: limits, silent: true },
      {
        // Apply limits only from here on: terminating a thread while it loads would look like a failed start.
        started: () => this.#guard(),
        message: (message) => this.#receive(message),
        ended: (end) => this.#ended(end),
      },
    );
  }

  get ended(): boolean {
    return this.#thread.ending;
  }

  run({ form, number, source, limitMs, worked }: AttachmentJob): Promise<AttachmentOutcome> {
    return new Promise((resolve, reject) => {
      this.#running = {
        ...{ resolve, reject, worked, isFed: false },
        feed: new PieceFeed(source),
        limitMs: Math.min(limitMs ?? this.limits.attachmentMs, this.limits.attachmentMs),
      };
      this.#thread.ref();
      this.#guard();
      this.#thread.post({ kind: 'job', form, number });
    });
  }

  end(): Promise<void> {
    return this.#thread.end();
  }

  #receive(message: FromWorker): void {
    if (message.kind === 'next') {
      this.#feedNext().catch((error: unknown) => this.#abandon(error));
      return;
    }
    this.#settle(({ resolve }) => resolve(message.outcome));
    if (message.worn) void this.end();
  }

  async #feedNext(): Promise<void> {
    const running = this.#running;
    if (running?.isFed === false) {
      // Loading time does not count against the attachment.
      running.isFed = true;
      this.#thread.limitWork(running.limitMs);
    }
    const piece = await running?.feed.next();
    if (piece !== undefined && this.#running === running) postPiece(this.#thread, piece);
  }

  #abandon(error: unknown): void {
    this.#settle(({ reject }) => reject(error));
    void this.end();
  }

  #settle(act: (running: Running) => void): void {
    const current = this.#running;
    if (current === null) return;
    this.#running = null;
    const busyMs = this.#unguard();
    current.worked?.(busyMs);
    // Lets the process exit while the thread is idle.
    this.#thread.unref();
    void current.feed.close().catch(() => undefined);
    act(current);
  }

  #ended(end: ThreadEnded): void {
    const { started, reason, file } = end.facts;
    this.#settle(({ resolve, reject }) => {
      if (!started) reject(mimeWorkerFailed(file, end.cause ?? reason));
      else if (reason === 'closed') reject(mailError('extractor-closed', {}));
      else resolve({ status: 'failed', reason: threadEndReason(end) });
    });
  }

  #guard(): void {
    this.#unguard();
    if (this.#running === null) return;
    if (!this.#thread.started) return;
    this.#thread.limitWork(this.limits.attachmentMs);
    const ground = this.memory();
    this.#watch = setInterval(() => {
      if (this.memory() - ground <= this.limits.growthBytes) return;
      this.#unguard();
      this.#thread.stop('memory');
    }, WATCH_MS);
  }

  /** Returns how long the thread was busy, in milliseconds. */
  #unguard(): number {
    if (this.#watch !== null) clearInterval(this.#watch);
    this.#watch = null;
    return this.#thread.disarm();
  }
}
