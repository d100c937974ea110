import { mailUnreadable } from '../errors/mime.ts';
import { PieceFeed, postPiece } from '../threads/source-pieces.ts';
import { builtWorker, WorkerThread } from '../threads/worker-thread.ts';
import { reasonOfEnd } from './extraction.ts';
import { DEFAULT_LIMITS, type MimeLimits } from './limits.ts';
import type { FromReader, ReadWant, ReadWorkerData, ToReader } from './worker-protocol.ts';

/** What a reader answers; its requests for more of the source are met in here. */
type ReaderAnswer = Exclude<FromReader, { readonly kind: 'next' }>;

/**
 * Runs one reading in a worker, alone there, and yields its answers. The next answer after a `chunk` is asked for
 * when the consumer asks for it, so that a slow consumer holds back the worker and the source. Throws
 * `mail-unreadable` when the worker runs out of memory, fails, or stays silent for longer than a message may
 * take; and whatever `source` throws. The worker is ended when the consumer stops, unless `spare` keeps it.
 */
export async function* readInWorker(
  source: AsyncIterable<Uint8Array>,
  want: ReadWant,
  options: ReadingOptions,
): AsyncGenerator<ReaderAnswer, void, undefined> {
  const { spare, signal } = options;
  signal?.throwIfAborted();
  const thread = spare?.take(want) ?? new ReadingThread(options, want);
  const leave = (): void => thread.leave(signal?.reason);
  signal?.addEventListener('abort', leave, { once: true });
  thread.begin(source);
  try {
    for (;;) {
      const answer = await thread.answer();
      yield answer;
      if (isLast(answer)) return;
      if (answer.kind === 'chunk') thread.more();
    }
  } finally {
    signal?.removeEventListener('abort', leave);
    if (spare?.keeps(thread, want) === true) await thread.rest();
    else await thread.end();
    spare?.prepare();
  }
}

/** Messages that a thread reads at most, and bytes of the largest one after which it reads another. */
const MOST_READ = 100;
const MOST_BYTES = 1024 * 1024;

/**
 * MiB of the young generation of a thread that reads: three times V8's own size. What is wide enough for messages on their
 * way to the index makes each of the threads that wait 5 MB larger, and reading a message no faster.
 */
const YOUNG_MB = 3;

class ReadingThread {
  readonly #thread: WorkerThread<ToReader, FromReader>;
  #feed: PieceFeed | null = null;
  readonly #messageMs: number;
  readonly #answers: ReaderAnswer[] = [];
  #waiting: { resolve: (a: ReaderAnswer) => void; reject: (e: unknown) => void } | null = null;
  #failure: { readonly error: unknown } | null = null;
  #read = 0;
  #bytes = 0;
  /** Whether its source was given to the thread to its end, and its last answer has come. */
  #isThrough = { source: false, answers: false };

  /** @param want null for a thread that waits for it, and then for another */
  constructor(
    options: ReadingOptions,
    private readonly want: ReadWant | null,
  ) {
    const limits = limitsOf(options);
    this.#messageMs = limits.messageMs;
    const file = options.workerFile ?? builtWorker('mime-worker');
    const data: ReadWorkerData = { mode: 'read', limits, want };
    this.#thread = new WorkerThread(
      {
        ...{ name: 'mailkeep-read', file, data },
        heap: { ...limits, youngGenerationMb: Math.min(limits.youngGenerationMb, YOUNG_MB) },
      },
      {
        message: (message) => this.#receive(message),
        ended: (end) => this.#fail(mailUnreadable(reasonOfEnd(end))),
      },
    );
    if (want === null) this.#thread.unref();
  }

  /** True for a thread that ended before it was used. */
  get isGone(): boolean {
    return this.#thread.ending || this.#failure !== null;
  }

  /** True for a thread that can read another message: nothing of the last one is left in it or on its way. */
  get canReadAnother(): boolean {
    const { source, answers } = this.#isThrough;
    const isUsable = this.want === null && !this.isGone && this.#answers.length === 0;
    return isUsable && source && answers && this.#read < MOST_READ && this.#bytes <= MOST_BYTES;
  }

  /** Posts what is wanted to a thread that was started without. */
  use(want: ReadWant): void {
    this.#read += 1;
    this.#bytes = 0;
    this.#isThrough = { source: false, answers: false };
    this.#thread.ref();
    this.#thread.post({ kind: 'want', want });
  }

  /** Starts to read. */
  begin(source: AsyncIterable<Uint8Array>): void {
    this.#feed = new PieceFeed(source);
    this.#thread.limitWork(this.#messageMs);
  }

  answer(): Promise<ReaderAnswer> {
    const answer = this.#answers.shift();
    if (answer !== undefined) return Promise.resolve(answer);
    if (this.#failure !== null) return Promise.reject(this.#failure.error);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** Nobody waits for what is read any more: the next answer is this error. */
  leave(reason: unknown): void {
    this.#fail(reason);
  }

  /** Lets the worker send the next chunk. */
  more(): void {
    this.#thread.limitWork(this.#messageMs);
    this.#thread.post({ kind: 'more' });
  }

  async end(): Promise<void> {
    await this.#thread.end();
    await this.#feed?.close();
  }

  /** Waits for another message; the process may end meanwhile. */
  async rest(): Promise<void> {
    this.#thread.unref();
    await this.#feed?.close();
  }

  #receive(message: FromReader): void {
    this.#thread.disarm();
    if (message.kind !== 'next' && isLast(message)) this.#isThrough.answers = true;
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
    const piece = await this.#feed?.next();
    if (piece === undefined) return;
    if (this.#thread.ending) return;
    if (piece.kind === 'end') this.#isThrough.source = true;
    else this.#bytes += piece.bytes.byteLength;
    this.#thread.limitWork(this.#messageMs);
    postPiece(this.#thread, piece);
  }

  #fail(error: unknown): void {
    this.#thread.disarm();
    this.#failure ??= { error };
    this.#waiting?.reject(this.#failure.error);
    this.#waiting = null;
  }
}

export interface ReadingOptions {
  readonly limits?: Partial<MimeLimits>;
  /** The built worker, where it is not in its usual place. */
  readonly workerFile?: URL;
  /** A thread that may be started already, under the spare's own options. */
  readonly spare?: SpareReader;
  /** Whether pictures of other servers are counted, which takes as long as to make a page of the HTML. */
  readonly countsRemote?: boolean;
  /** Ends the reading, and throws its reason, when it is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * Keeps threads for programs that read messages now and then: to start one takes longer than to read a message. One
 * waits that has read nothing yet, and one that reads messages for people, one after the other. What shows HTML or hands
 * out attachments has a thread that no other message was in.
 */
export class SpareReader {
  #fresh: ReadingThread | undefined;
  #used: ReadingThread | undefined;
  #closed = false;

  constructor(
    private readonly options: Omit<ReadingOptions, 'spare' | 'signal' | 'countsRemote'> = {},
  ) {}

  /** Starts a thread unless one waits. It does not keep the process alive. */
  prepare(): void {
    if (this.#closed || this.#fresh?.isGone === false) return;
    this.#fresh = new ReadingThread(this.options, null);
  }

  /** Returns a thread that waits, told what is wanted; undefined where none does. */
  take(want: ReadWant): ReadingThread | undefined {
    const thread = (isForPeople(want) ? this.#takeUsed() : undefined) ?? this.#takeFresh();
    thread?.use(want);
    return thread;
  }

  /** Takes a thread back that has done what was wanted, unless it has to be ended. */
  keeps(thread: ReadingThread, want: ReadWant): boolean {
    const isKept =
      !this.#closed && this.#used === undefined && isForPeople(want) && thread.canReadAnother;
    if (isKept) this.#used = thread;
    return isKept;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#takeFresh()?.end(), this.#takeUsed()?.end()]);
  }

  #takeFresh(): ReadingThread | undefined {
    const fresh = this.#fresh;
    this.#fresh = undefined;
    return fresh?.isGone === false ? fresh : undefined;
  }

  #takeUsed(): ReadingThread | undefined {
    const used = this.#used;
    this.#used = undefined;
    return used?.isGone === false ? used : undefined;
  }
}

function isLast({ kind }: ReaderAnswer): boolean {
  return kind === 'message' || kind === 'page' || kind === 'finished';
}

function isForPeople({ kind }: ReadWant): boolean {
  return kind === 'message';
}

/** Limits of a reading: those of every message, unless its options say others. */
export function limitsOf({ limits }: ReadingOptions): MimeLimits {
  return { ...DEFAULT_LIMITS, ...limits };
}
