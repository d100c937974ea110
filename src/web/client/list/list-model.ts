import type { SearchHit } from '../../../catalog/search/hit.ts';
import type { HitCount } from '../../../catalog/search/search.ts';
import { RowCache } from './row-cache.ts';
import type { ListPage, Place, RowSource } from './row-source.ts';
import { type Edges, type RowRange, runwayAround, shouldCentre } from './row-window.ts';

/** Rows that are asked for before they are in view. */
const AHEAD = 100;

interface Sought {
  readonly place: Place;
  readonly isGlance: boolean;
}

/** The rows of one query: what is known of them, and the way to the others. */
export class ListModel {
  #cache: RowCache<SearchHit>;
  #runway: RowRange;
  #epoch = 0;
  #top = 0;
  #shown: RowRange = { low: 0, high: 0 };
  #all: HitCount | null = null;
  #asking = new AbortController();
  readonly #growing = new Set<'after' | 'before'>();
  #wanted: Sought | undefined;
  #isSeeking = false;
  /** What is shown is about to be replaced: nothing around it is worth asking for. */
  #isGlance = false;
  #listeners = new Set<() => void>();
  /** While it runs, nothing is asked for that is not in view: another query may be on its way. */
  #rest: ReturnType<typeof setTimeout> | undefined;

  /** @param restMs milliseconds before rows are asked for that are not in view */
  constructor(
    private readonly source: Pick<RowSource, 'page' | 'position'>,
    seed: ListPage,
    private rowHeight: number,
    restMs = 0,
  ) {
    if (restMs > 0)
      this.#rest = setTimeout(() => {
        this.#rest = undefined;
        this.look(this.#shown);
      }, restMs);
    this.#cache = new RowCache(seed);
    this.#runway = this.#around(0);
    void this.#locate();
  }

  /** Calls a function after each change; returns one that ends that. */
  subscribe(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /** Another number means that the rows have other numbers, and that `top` is to be the first one in view. */
  get epoch(): number {
    return this.#epoch;
  }

  get top(): number {
    return this.#top;
  }

  /** The rows that the scroller holds. */
  get runway(): RowRange {
    return this.#runway;
  }

  get edges(): Edges {
    return this.#cache.edges;
  }

  /** Rows in all; null while that is not known. */
  get size(): number | null {
    const { start, end } = this.edges;
    if (start !== null && end !== null) return end - start;
    return this.#all?.complete === true ? this.#all.count : null;
  }

  at(row: number): SearchHit | undefined {
    return this.#cache.at(row);
  }

  /** Returns the number of a message's row; undefined where it is not among those that are kept. */
  find(id: string): number | undefined {
    return this.#cache.find(id);
  }

  /** Returns how many rows come before one; null while that is not known. */
  position(row: number): number | null {
    const { start } = this.edges;
    return start === null ? null : row - start;
  }

  /** Takes note of how many rows there are in all. */
  count(all: HitCount | null): void {
    if (all === null || all === this.#all) return;
    this.#all = all;
    this.#expectAll();
    this.#runway = this.#around(this.#shown.low);
    this.#changed();
  }

  /** Takes note of the height of rows. Pixels. */
  measure(rowHeight: number): void {
    if (rowHeight === this.rowHeight) return;
    this.rowHeight = rowHeight;
    this.#runway = this.#around(this.#shown.low);
  }

  /** Asks for what is about to come into view. */
  look(shown: RowRange): void {
    this.#shown = shown;
    if (this.#isGlance) return;
    const isKept = shown.low >= this.#cache.low && shown.high <= this.#cache.high;
    if (this.#rest !== undefined && isKept) return;
    if (shown.high + AHEAD > this.#cache.high) void this.#grow('after');
    if (shown.low - AHEAD < this.#cache.low) void this.#grow('before');
  }

  /** Puts the scroller's stretch around what is in view, once that rests. */
  centre(): void {
    if (!shouldCentre(this.#shown, this.#runway, this.edges)) return;
    this.#runway = this.#around(this.#shown.low);
    this.#changed();
  }

  /**
   * Shows the list from another place on. Of several that are wanted meanwhile, the last one follows.
   *
   * @param isGlance whether another place is about to follow, as while the spine is dragged
   */
  async seek(place: Place, isGlance = false): Promise<void> {
    this.#wanted = { place, isGlance };
    if (this.#isSeeking) return;
    this.#isSeeking = true;
    try {
      while (this.#wanted !== undefined) {
        const wanted: Sought = this.#wanted;
        this.#wanted = undefined;
        const page = await this.#page(wanted);
        if (page !== undefined) this.#show(page, wanted);
      }
    } finally {
      this.#isSeeking = false;
    }
  }

  /** Puts a row that is kept at the top. */
  showAt(row: number): void {
    this.#epoch += 1;
    this.#top = row;
    this.#runway = this.#around(row);
    this.#changed();
  }

  /** Ends what is under way. */
  close(): void {
    clearTimeout(this.#rest);
    this.#asking.abort();
    this.#wanted = undefined;
  }

  async #page({ place, isGlance }: Sought): Promise<ListPage | undefined> {
    const { signal } = this.#asking;
    const page = await this.source.page(place, signal, isGlance);
    if (page === undefined || signal.aborted) return undefined;
    if (page.rows.length > 0 || place.kind === 'last') return page;
    // Behind the last message there is nothing: its end is shown.
    return await this.#page({ place: { kind: 'last' }, isGlance });
  }

  #show(page: ListPage, { place, isGlance }: Sought): void {
    this.#asking.abort();
    this.#asking = new AbortController();
    this.#growing.clear();
    this.#isGlance = isGlance;
    this.#cache = new RowCache(page);
    this.#expectAll();
    this.#epoch += 1;
    this.#top = place.kind === 'last' ? this.#cache.high : this.#cache.low;
    this.#runway = this.#around(this.#top);
    this.#changed();
    if (!isGlance) void this.#locate();
  }

  /** Finds out how many rows come before the first one that is kept. */
  async #locate(): Promise<void> {
    const cache = this.#cache;
    const row = cache.low;
    const id = cache.at(row)?.line.id;
    if (cache.edges.start !== null || id === undefined) return;
    const { signal } = this.#asking;
    const found = await this.source.position(id, signal);
    if (found === undefined || signal.aborted) return;
    if (found.before.complete) cache.expectBefore(row, found.before.count);
    if (found.all.complete) this.#all = found.all;
    this.#expectAll();
    this.#clip();
    this.#changed();
  }

  #expectAll(): void {
    if (this.#all?.complete === true) this.#cache.expectAll(this.#all.count);
  }

  async #grow(side: 'after' | 'before'): Promise<void> {
    const cache = this.#cache;
    const from = side === 'after' ? cache.next : cache.previous;
    if (from === null || this.#growing.has(side)) return;
    this.#growing.add(side);
    const { signal } = this.#asking;
    const page = await this.source.page({ kind: side, from }, signal);
    if (signal.aborted) return;
    this.#growing.delete(side);
    if (page === undefined) return;
    if (side === 'after') cache.append(page);
    else cache.prepend(page);
    this.#expectAll();
    cache.trim(this.#shown);
    this.#clip();
    this.#changed();
    this.look(this.#shown);
  }

  /** The scroller never holds rows beyond an end that is known. */
  #clip(): void {
    const { start, end } = this.edges;
    const low = Math.max(this.#runway.low, start ?? -Infinity);
    const high = Math.max(low, Math.min(this.#runway.high, end ?? Infinity));
    if (low !== this.#runway.low || high !== this.#runway.high) this.#runway = { low, high };
  }

  #around(row: number): RowRange {
    return runwayAround(row, this.edges, this.rowHeight);
  }

  #changed(): void {
    for (const changed of this.#listeners) changed();
  }
}
