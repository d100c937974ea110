import { fetching, type SegmentStore } from '../archive/segment-files.ts';
import { hasCode, type Thrown } from '../core/errors.ts';
import type { ListedAttachment, MessageId } from '../core/types.ts';
import { builtWorker, JobPool } from '../core/worker-thread.ts';
import type { RenderedText } from '../service/message-view.ts';
import { type Criteria, statusRefusal, tooSoon } from '../service/surface.ts';

/** Sources are outside V8's heap; a parsed message is several times its text. MiB. */
const HEAP = { oldGenerationMb: 256, youngGenerationMb: 24 };

type ResultOf<Job extends ContentJob> = Extract<ContentResult, { kind: Job['kind'] }>;
type Lane = JobPool<ContentJob, ContentResult>;

/** Reads sources for the mirror, one job per thread at a time. A job past its deadline is stopped with its thread. */
export class ContentThreads {
  readonly #all: Lane[] = [];
  readonly #idle: Lane[] = [];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  #closed = false;

  /**
   * @param most maximum threads
   * @param deadlineMs time limit of a job, in milliseconds
   * @param segments store of segments that are not in the directory; if absent, all of them are
   */
  constructor(
    private readonly most: number,
    private readonly deadlineMs: number,
    private readonly segments?: SegmentStore,
    private readonly file = builtWorker('content-worker'),
  ) {}

  /**
   * Runs a job.
   *
   * @param make returns the job when a thread is free, or throws if it is too late
   * @throws Refusal 502 if it exceeds the time or memory limit of a thread; what the job throws
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
      // The result has the job's kind.
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

  /** Stops all threads, including busy ones, and rejects waiting jobs. */
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

/** A job that reads raw sources on a thread. */
export type ContentJob = {
  readonly dataDir: string;
  /** Segments may be missing in the directory: a job that needs one fails with `segment-elsewhere`. */
  readonly isPartial?: boolean;
} & (
  | {
      readonly kind: 'match';
      readonly criteria: Criteria;
      readonly ids: readonly MessageId[];
      /** Time limit, in milliseconds. */
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
  /** Positions of the matching messages; null if time ran out. */
  | {
      readonly kind: 'match';
      readonly positions: readonly number[] | null;
      /** Positions of messages with damaged sources: whether they match is unknown. */
      readonly damaged: readonly number[];
      readonly why: Thrown | null;
    }
  | { readonly kind: 'text'; readonly rendered: RenderedText }
  /** Null if the part cannot be identified. */
  | { readonly kind: 'attachment'; readonly bytes: Uint8Array | null };

/** Requests of one token that run at once; others wait. */
const AT_ONCE = 8;
/** Maximum waiting requests per token: fewer than the listener's connections, so that others can connect. */
const WAITING = 120;
/** Maximum searches of one token that run or wait. */
const SEARCHING = 60;

interface Line {
  answering: number;
  /** Requests that gave up their turn until their search has finished. */
  searching: number;
  readonly waiting: (() => void)[];
  last: Promise<unknown>;
}

/** Limits each token to a few requests and one costly search at a time. */
export class TokenTurns {
  readonly #lines = new Map<string, Line>();

  /** Waits for a turn, and resolves to the function that ends it. @throws Refusal 429 if too many requests wait */
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
   * Runs a task that each token may run only once at a time, in order of arrival. Meanwhile the request gives its turn
   * to the token's others, and then gets the next free one.
   *
   * @throws Refusal 429 if too many of them wait
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
