import { AsyncLocalStorage } from 'node:async_hooks';
import { readlinkSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { parentPort, type Transferable } from 'node:worker_threads';
import { serializeError, type TransferredError } from './errors.ts';
import type { WorkerThread } from './worker-thread.ts';

/** The first message from every thread, sent once it is listening: its path under /proc on Linux, otherwise empty. */
type Ready = string;

export type FromThread<Out extends object> = Out | Ready;

/** Listens to this worker thread's host and reports that the thread has started. Throws on the main thread. */
export function openThreadPort<In, Out extends object>(receive: (message: In) => void) {
  const port = parentPort;
  if (port === null) throw new Error('runs as a worker thread only');
  port.on('message', receive);
  port.postMessage(findTask() satisfies FromThread<Out>);
  return {
    send: (message: Out, transfer: readonly Transferable[] = []) =>
      port.postMessage(message, transfer),
    close: () => port.close(),
  };
}

function findTask(): Ready {
  try {
    return readlinkSync('/proc/thread-self');
  } catch {
    return '';
  }
}

export type JobMessage<Result, Report> =
  | { readonly report: Report }
  | { readonly result: Result }
  | { readonly thrown: TransferredError };

/** Runs the jobs of a `JobPool` on this worker thread. An error in `work` rejects the job's promise on the host. */
export function serveJobs<Job, Result, Report = never>(
  work: (job: Job, report: (report: Report) => void) => Promise<Result>,
): void {
  const port = openThreadPort<Job, JobMessage<Result, Report>>((job) => {
    work(job, (report) => port.send({ report })).then(
      (result) => port.send({ result }),
      (error: unknown) => port.send({ thrown: serializeError(error) }),
    );
  });
}

/** Reports whether to replace this thread after its work, because V8 never frees the space used by a large message. */
export function needsReplacement(wornBytes: number): boolean {
  const { total_heap_size: heap, external_memory: buffers } = getHeapStatistics();
  return heap + buffers > wornBytes;
}

type Fail = (error: unknown) => void;

/**
 * Returns a function that runs a task and also rejects on uncaught exceptions and unhandled rejections caused by it.
 * Errors from finished tasks are ignored. For dedicated threads only: it handles every uncaught exception.
 */
export function catchStrayErrors(): <T>(run: () => Promise<T>) => Promise<T> {
  const origins = new AsyncLocalStorage<Fail>();
  let current: Fail | undefined;
  process.on('uncaughtException', (error) => {
    // Errors from microtasks have no origin, but microtasks run almost immediately.
    const fail = origins.getStore() ?? current;
    fail?.(error);
  });
  return <T>(run: () => Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      current = reject;
      origins
        .run(reject, run)
        .then(resolve, reject)
        .finally(() => {
          if (current === reject) current = undefined;
        });
    });
}

/** Bytes of a source to send in each message to a thread. */
const PIECE = 256 * 1024;

export type PieceMessage =
  | { readonly kind: 'piece'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' };

/** Host side: sends a source to a thread in pieces, so that neither side holds more than one piece. */
export class PieceFeed {
  readonly #pieces: AsyncIterator<Uint8Array>;

  constructor(source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) {
    this.#pieces = splitPieces(source);
  }

  async next(): Promise<PieceMessage> {
    const { done, value } = await this.#pieces.next();
    // A copy, because transferring detaches it.
    return done === true ? { kind: 'end' } : { kind: 'piece', bytes: new Uint8Array(value) };
  }

  async close(): Promise<void> {
    await this.#pieces.return?.();
  }
}

export function postPiece(
  thread: Pick<WorkerThread<PieceMessage, object>, 'post'>,
  message: PieceMessage,
): void {
  thread.post(message, message.kind === 'piece' ? [message.bytes.buffer] : []);
}

/** Thread side: requests a source one piece at a time. */
export class PieceIntake {
  #awaited: ((message: PieceMessage) => void) | null = null;

  constructor(private readonly ask: () => void) {}

  take(message: PieceMessage): void {
    this.#awaited?.(message);
  }

  async *pieces(): AsyncGenerator<Buffer> {
    for (;;) {
      const message = await new Promise<PieceMessage>((resolve) => {
        this.#awaited = resolve;
        this.ask();
      });
      if (message.kind === 'end') return;
      yield Buffer.from(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
    }
  }
}

async function* splitPieces(
  source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += PIECE) yield chunk.subarray(at, at + PIECE);
  }
}
