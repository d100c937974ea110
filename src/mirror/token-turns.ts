import { tooSoon } from '../mailbox-surface/refusal.ts';

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

  /** Gives the turn of a request to the next one. */
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
