import { Worker } from 'node:worker_threads';
import { mailUnreadable } from '../errors/mime.ts';
import type { UnparsedReason } from './extraction.ts';
import type { MimeLimits } from './limits.ts';
import type { FromReader, ReadWant, ReadWorkerData, ToReader } from './worker-protocol.ts';

/** Bytes of a source given to the worker at once. */
const PIECE = 256 * 1024;

/** What a reader answers; its requests for more of the source are met in here. */
export type ReaderAnswer = Exclude<FromReader, { readonly kind: 'next' }>;

/**
 * Runs one reading in a worker of its own and yields its answers. The next answer after a `chunk` is asked for
 * when the consumer asks for it, so that a slow consumer holds back the worker and the source. Throws
 * `mail-unreadable` when the worker runs out of memory, fails, or stays silent for longer than a message may
 * take; and whatever `source` throws. The worker is ended when the consumer stops.
 */
export async function* readInWorker(
  source: AsyncIterable<Uint8Array>,
  want: ReadWant,
  limits: MimeLimits,
  workerFile: URL,
): AsyncGenerator<ReaderAnswer, void, undefined> {
  const thread = new ReadingThread(source, want, limits, workerFile);
  try {
    for (;;) {
      const answer = await thread.answer();
      yield answer;
      if (answer.kind === 'finished' || answer.kind === 'page') return;
      if (answer.kind === 'chunk') thread.post({ kind: 'more' });
    }
  } finally {
    await thread.end();
  }
}

class ReadingThread {
  private readonly worker: Worker;
  private readonly pieces: AsyncIterator<Uint8Array>;
  private readonly answers: ReaderAnswer[] = [];
  private waiting: { resolve: (a: ReaderAnswer) => void; reject: (e: unknown) => void } | null =
    null;
  private failure: { readonly error: unknown } | null = null;
  private deadline: NodeJS.Timeout | null = null;
  private doom: UnparsedReason | null = null;

  constructor(
    source: AsyncIterable<Uint8Array>,
    want: ReadWant,
    private readonly limits: MimeLimits,
    workerFile: URL,
  ) {
    this.pieces = inPieces(source);
    const workerData: ReadWorkerData = { mode: 'read', limits, want };
    this.worker = new Worker(workerFile, {
      name: 'mailkeep-read',
      workerData,
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: limits.oldGenerationMb,
        maxYoungGenerationSizeMb: limits.youngGenerationMb,
      },
    });
    this.expectAnswer();
    this.worker.on('message', (message: FromReader) => this.receive(message));
    this.worker.on('messageerror', (error) => this.fail(error));
    this.worker.on('error', (error: Error) => {
      const memory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.doom ??= memory ? 'memory' : 'malformed';
    });
    this.worker.on('exit', () => this.fail(mailUnreadable(this.doom ?? 'malformed')));
  }

  answer(): Promise<ReaderAnswer> {
    const answer = this.answers.shift();
    if (answer !== undefined) return Promise.resolve(answer);
    if (this.failure !== null) return Promise.reject(this.failure.error);
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
    });
  }

  post(message: ToReader): void {
    this.expectAnswer();
    this.worker.postMessage(message, message.kind === 'piece' ? [message.bytes.buffer] : []);
  }

  async end(): Promise<void> {
    this.disarm();
    await this.worker.terminate();
    await this.pieces.return?.();
  }

  private receive(message: FromReader): void {
    this.disarm();
    if (message.kind === 'next') {
      this.feed().catch((error: unknown) => this.fail(error));
    } else if (this.waiting !== null) {
      const { resolve } = this.waiting;
      this.waiting = null;
      resolve(message);
    } else {
      this.answers.push(message);
    }
  }

  private async feed(): Promise<void> {
    const { done, value } = await this.pieces.next();
    if (done === true) this.post({ kind: 'end' });
    // A copy of its own, because it is given away.
    else this.post({ kind: 'piece', bytes: new Uint8Array(value) });
  }

  private fail(error: unknown): void {
    this.disarm();
    this.failure ??= { error };
    if (this.waiting === null) return;
    const { reject } = this.waiting;
    this.waiting = null;
    reject(this.failure.error);
  }

  /** The worker has something to do and answers in time, or is ended. */
  private expectAnswer(): void {
    this.disarm();
    this.deadline = setTimeout(() => {
      this.doom ??= 'timeout';
      void this.worker.terminate();
    }, this.limits.messageMs);
  }

  private disarm(): void {
    if (this.deadline !== null) clearTimeout(this.deadline);
    this.deadline = null;
  }
}

async function* inPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += PIECE) yield chunk.subarray(at, at + PIECE);
  }
}
