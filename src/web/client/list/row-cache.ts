import type { Edges, RowRange } from './row-window.ts';

/** Rows that are kept, at most: what lies farther from what is shown is asked for again. */
export const MOST_KEPT = 1_200;

/** One page of rows, in the order of the list. */
export interface RowPage<T> {
  readonly rows: readonly T[];
  /** What to ask with for the page before this one, and the one behind it; null where there is none. */
  readonly previous: string | null;
  readonly next: string | null;
}

/** A stretch of the list without gaps, by the numbers of its rows. It grows at both sides, and forgets the far side. */
export class RowCache<T extends { readonly line: { readonly id: string } }> {
  #rows: T[];
  #low = 0;
  #previous: string | null;
  #next: string | null;
  #start: number | null;
  #end: number | null;

  /** @param page its first row has the number 0 */
  constructor(page: RowPage<T>) {
    this.#rows = [...page.rows];
    this.#previous = page.previous;
    this.#next = page.next;
    this.#start = page.previous === null ? 0 : null;
    this.#end = page.next === null ? this.high : null;
  }

  get low(): number {
    return this.#low;
  }

  get high(): number {
    return this.#low + this.#rows.length;
  }

  get edges(): Edges {
    return { start: this.#start, end: this.#end };
  }

  /** What to ask with for the rows before the first one that is kept; null where there are none. */
  get previous(): string | null {
    return this.#previous;
  }

  get next(): string | null {
    return this.#next;
  }

  at(row: number): T | undefined {
    return this.#rows[row - this.#low];
  }

  /** Returns the number of the row of a message, by its id or the beginning of it. */
  find(id: string): number | undefined {
    const index = this.#rows.findIndex(({ line }) => line.id.startsWith(id));
    return index < 0 ? undefined : this.#low + index;
  }

  /** Adds the page that follows the last row. */
  append({ rows, next }: RowPage<T>): void {
    this.#rows.push(...rows);
    this.#next = next;
    if (next === null) this.#end = this.high;
    // More than were counted: the number was of another moment.
    else if (this.#end !== null && this.#end <= this.high) this.#end = null;
  }

  /** Adds the page that comes before the first row. */
  prepend({ rows, previous }: RowPage<T>): void {
    this.#rows.unshift(...rows);
    this.#low -= rows.length;
    this.#previous = previous;
    if (previous === null) this.#start = this.#low;
    else if (this.#start !== null && this.#start >= this.#low) this.#start = null;
  }

  /** Takes over how many rows were counted before one, where the first one was not met yet. */
  expectBefore(row: number, count: number): void {
    const start = Math.min(row - count, this.#low);
    if (this.#previous !== null) this.#start = start < this.#low ? start : null;
  }

  /** Takes over how many rows were counted in all, where the last one was not met yet. */
  expectAll(count: number): void {
    if (this.#next === null || this.#start === null) return;
    const end = this.#start + count;
    this.#end = end > this.high ? end : null;
  }

  /** Forgets what is farthest from the rows that are shown, until no more than the most is kept. */
  trim({ low, high }: RowRange): void {
    const spare = this.#rows.length - MOST_KEPT;
    if (spare <= 0) return;
    const room = Math.max(0, Math.floor((MOST_KEPT - (high - low)) / 2));
    const first = Math.min(Math.max(0, low - room - this.#low), spare);
    this.#rows = this.#rows.slice(first, first + MOST_KEPT);
    this.#low += first;
    if (first > 0) this.#previous = this.#rows[0]?.line.id ?? null;
    if (first < spare) this.#next = this.#rows.at(-1)?.line.id ?? null;
  }
}
