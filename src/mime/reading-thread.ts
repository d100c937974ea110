import { mailUnreadable } from '../errors/mime.ts';
import { PieceFeed, postPiece } from '../threads/source-pieces.ts';
import { WorkerThread } from '../threads/worker-thread.ts';
import { reasonOfEnd } from './extraction.ts';
import type { MimeLimits } from './limits.ts';
import type { FromReader, ReadWant, ReadWorkerData, ToReader } from './worker-protocol.ts';

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
      if (answer.kind === 'chunk') thread.more();
    }
  } finally {
    await thread.end();
  }
}

class ReadingThread {
  readonly #thread: WorkerThread<ToReader, FromReader>;
  readonly #feed: PieceFeed;
  readonly #messageMs: number;
  readonly #answers: ReaderAnswer[] = [];
  #waiting: { resolve: (a: ReaderAnswer) => void; reject: (e: unknown) => void } | null = null;
  #failure: { readonly error: unknown } | null = null;

  constructor(
    source: AsyncIterable<Uint8Array>,
    want: ReadWant,
    limits: MimeLimits,
    workerFile: URL,
  ) {
    this.#feed = new PieceFeed(source);
    this.#messageMs = limits.messageMs;
    const data: ReadWorkerData = { mode: 'read', limits, want };
    this.#thread = new WorkerThread(
      { name: 'mailkeep-read', file: workerFile, data, heap: limits },
      {
        message: (message) => this.#receive(message),
        ended: (end) => this.#fail(mailUnreadable(reasonOfEnd(end))),
      },
    );
    this.#thread.setDeadline(this.#messageMs);
  }

  answer(): Promise<ReaderAnswer> {
    const answer = this.#answers.shift();
    if (answer !== undefined) return Promise.resolve(answer);
    if (this.#failure !== null) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** Lets the worker send the next chunk. */
  more(): void {
    this.#thread.setDeadline(this.#messageMs);
    this.#thread.post({ kind: 'more' });
  }

  async end(): Promise<void> {
    await this.#thread.end();
    await this.#feed.close();
  }

  #receive(message: FromReader): void {
    this.#thread.disarm();
    if (message.kind === 'next') {
      this.#feedNext().catch((error: unknown) => this.#fail(error));
    } else if (this.#waiting !== null) {
      const { resolve } = this.#waiting;
      this.#waiting = null;
      resolve(message);
    } else {
      this.#answers.push(message);
    }
  }

  async #feedNext(): Promise<void> {
    const piece = await this.#feed.next();
    if (this.#thread.ending) return;
    this.#thread.setDeadline(this.#messageMs);
    postPiece(this.#thread, piece);
  }

  #fail(error: unknown): void {
    this.#thread.disarm();
    this.#failure ??= { error };
    this.#waiting?.reject(this.#failure.error);
    this.#waiting = null;
  }
}
