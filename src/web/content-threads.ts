import { fetching, type SegmentStore } from '../archive/segment-files.ts';
import { hasCode, type Thrown } from '../core/errors.ts';
import type { ListedAttachment, MessageId } from '../core/types.ts';
import { builtWorker, JobPool } from '../core/worker-thread.ts';
import type { RenderedText } from '../service/message-view.ts';
import { type Criteria, statusRefusal, tooSoon } from '../service/surface.ts';

/** Sources lie outside of V8's heap; a parsed message is several times its text. MiB. */
const HEAP = { oldGenerationMb: 256, youngGenerationMb: 24 };

type ResultOf<Job extends ContentJob> = Extract<ContentResult, { kind: Job['kind'] }>;
type Lane = JobPool<ContentJob, ContentResult>;

/** Reads sources for the mirror, a job a thread at a time. What takes too long ends with its thread. */
export class ContentThreads {
  readonly #all: Lane[] = [];
  readonly #idle: Lane[] = [];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  #closed = false;

  /**
   * @param most threads
   * @param deadlineMs of one job, in milliseconds
   * @param segments where segments are that are not in the folder; without it, all are
   */
  constructor(
    private readonly most: number,
    private readonly deadlineMs: number,
    private readonly segments?: SegmentStore,
    private readonly file = builtWorker('content-worker'),
  ) {}

  /**
   * Does a job.
   *
   * @param make returns the job when a thread is free, or throws where it is too late for it
   * @throws Refusal 502 where it took too long or more memory than a thread may have; what the job throws
   */
  async run<Job extends ContentJob>(make: () => Job): Promise<ResultOf<Job>> {
    const { segments } = this;
    if (segments === undefined) return this.#run(make);
    return fetching(segments, () => this.#run(() => ({ ...make(), isPartial: true })));
  }

  async #run<Job extends ContentJob>(make: () => Job): Promise<ResultOf<Job>> {
    const lane = await this.#lane();
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    try {
      if (this.#closed) throw statusRefusal(503, undefined, undefined);
      timer = setTimeout(() => {
        isLate = true;
        void lane.end();
      }, this.deadlineMs);
      const result = await lane.run(make());
      // A job answers in its own kind.
      return result as ResultOf<Job>;
    } catch (error) {
      if (isLate || hasCode(error, 'thread-ended'))
        throw statusRefusal(502, 'ERR_TOO_EXPENSIVE', undefined);
      throw error;
    } finally {
      clearTimeout(timer);
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(lane);
      else next(lane);
    }
  }

  /** Ends the threads, also those that are busy, and whatever waits for one. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all.map((lane) => lane.end()));
  }

  async #lane(): Promise<Lane> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#all.length < this.most) {
      const lane: Lane = new JobPool(1, {
        name: 'mailkeep-content',
        file: this.file,
        heap: HEAP,
        silent: true,
      });
      this.#all.push(lane);
      return lane;
    }
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Work that reads raw sources, and is done on a thread. */
export type ContentJob = {
  readonly dataDir: string;
  /** Whether segments may be missing in the folder: a job that needs one fails with `segment-elsewhere`. */
  readonly isPartial?: boolean;
} & (
  | {
      readonly kind: 'match';
      readonly criteria: Criteria;
      readonly ids: readonly MessageId[];
      /** Milliseconds that it may take. */
      readonly withinMs: number;
    }
  | { readonly kind: 'text'; readonly id: MessageId }
  | {
      readonly kind: 'attachment';
      readonly id: MessageId;
      readonly listed: readonly ListedAttachment[];
      readonly attachmentId: string;
    }
);

export type ContentResult =
  /** Which of the messages match, by their positions; null where the time was over. */
  | {
      readonly kind: 'match';
      readonly positions: readonly number[] | null;
      /** The messages whose sources are damaged, by their positions: nobody knows whether they match. */
      readonly damaged: readonly number[];
      readonly why: Thrown | null;
    }
  | { readonly kind: 'text'; readonly rendered: RenderedText }
  /** Null where it cannot be told which part it is. */
  | { readonly kind: 'attachment'; readonly bytes: Uint8Array | null };

/** Requests of one token that are answered at once; further ones wait. */
const AT_ONCE = 8;
/** Requests of one token that wait: fewer than the listener has connections, so that others can still connect. */
const WAITING = 120;
/** Searches of one token that are carried out or wait for that. */
const SEARCHING = 60;

interface Line {
  answering: number;
  /** Requests that gave up their turn until their search is done. */
  searching: number;
  readonly waiting: (() => void)[];
  last: Promise<unknown>;
}

/** Keeps one token from taking everything: a few of its requests are answered at a time, and one costly search. */
export class TokenTurns {
  readonly #lines = new Map<string, Line>();

  /**
   * Resolves when a request of a token may be answered, with the function that ends its turn.
   *
   * @throws Refusal 429 where too many of them wait
   */
  async enter(token: string): Promise<() => void> {
    const line = this.#line(token);
    if (line.answering < AT_ONCE) line.answering += 1;
    else {
      if (line.waiting.length >= WAITING)
        throw tooSoon('ERR_RATE_LIMIT', 'Too many requests of this token wait for an answer', 1);
      await new Promise<void>((resolve) => line.waiting.push(resolve));
    }
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#pass(token, line);
    };
  }

  /**
   * Runs what a token may do once at a time, in the order in which it was asked for. Meanwhile the request gives its turn
   * to others of the token; then it gets the next turn that ends.
   *
   * @throws Refusal 429 where too many of them wait
   */
  async alone<T>(token: string, act: () => Promise<T>): Promise<T> {
    const line = this.#line(token);
    if (line.searching >= SEARCHING)
      throw tooSoon('ERR_RATE_LIMIT', 'Too many searches of this token wait for an answer', 1);
    line.searching += 1;
    this.#pass(token, line);
    const mine = line.last.then(act);
    line.last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      if (line.answering < AT_ONCE) line.answering += 1;
      else await new Promise<void>((resolve) => line.waiting.unshift(resolve));
      line.searching -= 1;
    }
  }

  #pass(token: string, line: Line): void {
    const next = line.waiting.shift();
    if (next !== undefined) next();
    else line.answering -= 1;
    if (line.answering + line.searching === 0) this.#lines.delete(token);
  }

  #line(token: string): Line {
    let line = this.#lines.get(token);
    if (line === undefined) {
      line = { answering: 0, searching: 0, waiting: [], last: Promise.resolve() };
      this.#lines.set(token, line);
    }
    return line;
  }
}
