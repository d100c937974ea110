import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { ListSort, ListTimeline } from '../mail-list.ts';
import type { ListProps } from '../pages/mail-page.tsx';
import type { RowsAnswer } from './viewer.ts';

const PAGE_ROWS = 100;
/** Enough rows to fill the view. */
const GLANCE_ROWS = 40;
/** Maximum attempts to load a page if each one times out before finding a row. */
const TRIES = 20;

export type Place =
  | { readonly kind: 'first' | 'last' }
  /** `from` is a message id, or a cursor from a response. */
  | { readonly kind: 'after' | 'before' | 'at'; readonly from: string }
  /** Milliseconds since the epoch. */
  | { readonly kind: 'time'; readonly time: number };

export type ListPage = RowPage<SearchHit>;

export type ListQuery = Pick<ListProps, 'query' | 'sort'>;
type Position = Readonly<Record<'before' | 'all', HitCount>>;
type TimelineAnswer = (ListTimeline & { readonly problem: null }) | { readonly problem: object };

/** Resolves to undefined if the request failed, which the viewer reports. */
type Ask = <T>(address: string, signal: AbortSignal) => Promise<T | undefined>;

export class RowSource {
  constructor(
    private readonly of: ListQuery,
    private readonly ask: Ask,
  ) {}

  /** @param isGlance true if a screenful of rows is enough @returns undefined if the request failed */
  async page(place: Place, signal: AbortSignal, isGlance = false): Promise<ListPage | undefined> {
    const { sort } = this.of;
    const limit = isGlance ? GLANCE_ROWS : PAGE_ROWS;
    if (place.kind === 'last') {
      // The last page is the first in reverse order.
      const page = await this.#page(otherSort(sort), { kind: 'first' }, limit, signal);
      return page && { rows: page.rows.toReversed(), previous: page.next, next: null };
    }
    return this.#page(sort, place, limit, signal);
  }

  async position(id: string, signal: AbortSignal) {
    const { query: q, sort } = this.of;
    const parameters = new URLSearchParams({ q, sort, at: id });
    const position = await this.ask<Position | null>(`/api/position?${parameters}`, signal);
    return position ?? undefined;
  }

  /** @returns null if the list is empty; undefined if the request failed */
  async newest(signal: AbortSignal): Promise<string | null | undefined> {
    const answer = await this.#rows('newest', { kind: 'first' }, 1, signal);
    return answer && (answer.hits[0]?.line.id ?? null);
  }

  /** Counts newer messages, up to one page. @param id null if the list was empty */
  async newerThan(id: string | null, signal: AbortSignal) {
    const place: Place = id === null ? { kind: 'first' } : { kind: 'before', from: id };
    const answer = await this.#rows('newest', place, PAGE_ROWS, signal);
    if (answer === undefined) return undefined;
    const isMore = id === null ? answer.next !== null : answer.previous !== null;
    return { count: answer.hits.length, isMore };
  }

  async timeline(signal: AbortSignal): Promise<ListTimeline | undefined> {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const parameters = new URLSearchParams({ q: this.of.query, tz: timeZone });
    const answer = await this.ask<TimelineAnswer>(`/api/timeline?${parameters}`, signal);
    return answer === undefined || answer.problem !== null ? undefined : answer;
  }

  async #page(sort: ListSort, place: Place, limit: number, signal: AbortSignal) {
    const isBackward = place.kind === 'before';
    let asked = place;
    let previous: string | null | undefined;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const answer = await this.#rows(sort, asked, limit, signal);
      if (answer === undefined) return undefined;
      previous ??= answer.previous;
      const from = isBackward ? answer.previous : answer.next;
      if (answer.hits.length > 0 || from === null)
        return {
          rows: answer.hits,
          previous: isBackward ? answer.previous : previous,
          next: answer.next,
        };
      // Time ran out before a row was found.
      asked = { kind: isBackward ? 'before' : 'after', from };
    }
    return undefined;
  }

  async #rows(sort: ListSort, place: Place, limit: number, signal: AbortSignal) {
    const parameters = new URLSearchParams({ q: this.of.query, sort, limit: String(limit) });
    if (place.kind === 'time') parameters.set('at', new Date(place.time).toISOString());
    else if ('from' in place) parameters.set(place.kind, place.from);
    const answer = await this.ask<RowsAnswer>(`/api/rows?${parameters}`, signal);
    return answer === undefined || answer.problem !== null ? undefined : answer;
  }
}

function otherSort(sort: ListSort): ListSort {
  return sort === 'newest' ? 'oldest' : 'newest';
}

/** Maximum rows in memory. Rows farther from the view are fetched again when needed. */
export const MAX_KEPT = 1_200;

export interface RowPage<T> {
  readonly rows: readonly T[];
  /** Cursors for the adjacent pages; null at the ends of the list. */
  readonly previous: string | null;
  readonly next: string | null;
}

/** A contiguous range of rows. It grows at both ends, and drops the rows farthest from the view. */
export class RowCache<T extends { readonly line: { readonly id: string } }> {
  #rows: T[];
  #low = 0;
  #previous: string | null;
  #next: string | null;
  #start: number | null;
  #end: number | null;

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

  get previous(): string | null {
    return this.#previous;
  }

  get next(): string | null {
    return this.#next;
  }

  at(row: number): T | undefined {
    return this.#rows[row - this.#low];
  }

  find(id: string): number | undefined {
    const index = this.#rows.findIndex(({ line }) => line.id.startsWith(id));
    return index < 0 ? undefined : this.#low + index;
  }

  append({ rows, next }: RowPage<T>): void {
    this.#rows.push(...rows);
    this.#next = next;
    if (next === null) this.#end = this.high;
    // Rows have been added since they were counted.
    else if (this.#end !== null && this.#end <= this.high) this.#end = null;
  }

  prepend({ rows, previous }: RowPage<T>): void {
    this.#rows.unshift(...rows);
    this.#low -= rows.length;
    this.#previous = previous;
    if (previous === null) this.#start = this.#low;
    else if (this.#start !== null && this.#start >= this.#low) this.#start = null;
  }

  /** Sets the start of the list from the number of rows before `row`, unless the start is already known. */
  expectBefore(row: number, count: number): void {
    const start = Math.min(row - count, this.#low);
    if (this.#previous !== null) this.#start = start < this.#low ? start : null;
  }

  /** Sets the end of the list from the total number of rows, unless the end is already known. */
  expectAll(count: number): void {
    if (this.#next === null || this.#start === null) return;
    const end = this.#start + count;
    this.#end = end > this.high ? end : null;
  }

  trim({ low, high }: RowRange): void {
    const spare = this.#rows.length - MAX_KEPT;
    if (spare <= 0) return;
    const room = Math.max(0, Math.floor((MAX_KEPT - (high - low)) / 2));
    const first = Math.min(Math.max(0, low - room - this.#low), spare);
    this.#rows = this.#rows.slice(first, first + MAX_KEPT);
    this.#low += first;
    if (first > 0) this.#previous = this.#rows[0]?.line.id ?? null;
    if (first < spare) this.#next = this.#rows.at(-1)?.line.id ?? null;
  }
}

/**
 * Row positions. Rows are numbered on an unbounded axis, with 0 for the first row loaded; loading more never changes
 * the numbers. The scroller holds the part of the axis around the view, because browsers limit an element's height.
 */

/** Rows from `low` (inclusive) to `high` (exclusive). */
export interface RowRange {
  readonly low: number;
  readonly high: number;
}

interface Edges {
  readonly start: number | null;
  /** Number after the last row; null while unknown. */
  readonly end: number | null;
}

/** Maximum rows in the document at any time. */
export const MAX_ROWS = 60;
/** Maximum rows in the scroller on each side of its anchor. */
export const REACH = 2_000;
/** Maximum height of the scroller in pixels. Browsers limit elements to between 17 and 33 million. */
export const MAX_PIXELS = 8_000_000;
/** The scroller is recentred at rest if fewer rows remain at one end and the list continues beyond it. */
const NEAR = REACH / 2;
/** Rows rendered before and after the visible ones. */
const SPARE = 6;

export function runwayAround(anchor: number, { start, end }: Edges, rowHeight: number): RowRange {
  const reach = Math.min(REACH, Math.floor(MAX_PIXELS / (2 * rowHeight)));
  const first = start ?? -Infinity;
  const behind = Math.max(first === -Infinity ? anchor : first, end ?? Infinity);
  const middle = Math.min(Math.max(anchor, first), behind);
  return { low: Math.max(first, middle - reach), high: Math.min(behind, middle + reach) };
}

export function shouldCentre(visible: RowRange, runway: RowRange, { start, end }: Edges): boolean {
  const isNearTop = visible.low - runway.low < NEAR && runway.low !== start;
  const isNearEnd = runway.high - visible.high < NEAR && runway.high !== end;
  // The ends of the list may have become known since the scroller was placed.
  const isBeyond =
    (start !== null && runway.low < start) ||
    (end !== null && runway.high > Math.max(end, start ?? end));
  return isNearTop || isNearEnd || isBeyond;
}

/** Increases the row height if a tall window would otherwise show more than `MAX_ROWS`. */
export function rowHeightFor(wanted: number, viewport: number): number {
  // One row may be cut off at the top and one at the bottom.
  return Math.max(1, wanted, Math.ceil(viewport / (MAX_ROWS - 2)));
}

export function visibleRows(
  scrollTop: number,
  viewport: number,
  rowHeight: number,
  runway: RowRange,
): RowRange {
  const low = runway.low + Math.floor(scrollTop / rowHeight);
  const high = runway.low + Math.ceil((scrollTop + viewport) / rowHeight);
  return within({ low, high: Math.max(high, low + 1) }, runway);
}

export function renderedRows(visible: RowRange, runway: RowRange): RowRange {
  const room = Math.max(0, MAX_ROWS - (visible.high - visible.low));
  const spare = Math.min(SPARE, Math.floor(room / 2));
  return within({ low: visible.low - spare, high: visible.high + spare }, runway);
}

/** Returns the scroll position that brings a row into view with the least movement. */
export function positionToShow(
  row: number,
  scrollTop: number,
  viewport: number,
  rowHeight: number,
  runway: RowRange,
): number {
  const top = (row - runway.low) * rowHeight;
  if (top < scrollTop) return top;
  return top + rowHeight > scrollTop + viewport
    ? Math.max(0, top + rowHeight - viewport)
    : scrollTop;
}

function within(range: RowRange, { low, high }: RowRange): RowRange {
  const from = Math.min(Math.max(range.low, low), high);
  return { low: from, high: Math.min(Math.max(range.high, from), high) };
}

/** How many rows to fetch in advance on each side of the view. */
const AHEAD = 100;

interface Sought {
  readonly place: Place;
  readonly isGlance: boolean;
}

export class ListModel {
  #cache: RowCache<SearchHit>;
  #runway: RowRange;
  #epoch = 0;
  #top = 0;
  #visible: RowRange = { low: 0, high: 0 };
  #all: HitCount | null = null;
  #asking = new AbortController();
  readonly #growing = new Set<'after' | 'before'>();
  #target: Sought | undefined;
  #isSeeking = false;
  /** True while another seek is about to follow, so that rows around the view are not fetched. */
  #isGlance = false;
  #listeners = new Set<() => void>();
  /** While this timer runs, only rows in view are fetched, because another query may follow. */
  #rest: ReturnType<typeof setTimeout> | undefined;

  /** @param restMs delay in milliseconds before rows outside the view are fetched */
  constructor(
    private readonly source: Pick<RowSource, 'page' | 'position'>,
    seed: ListPage,
    private rowHeight: number,
    restMs = 0,
  ) {
    if (restMs > 0)
      this.#rest = setTimeout(() => {
        this.#rest = undefined;
        this.look(this.#visible);
      }, restMs);
    this.#cache = new RowCache(seed);
    this.#runway = this.#around(0);
    void this.#locate();
  }

  subscribe(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /** Changes whenever rows are renumbered; `top` is then the first row to show. */
  get epoch(): number {
    return this.#epoch;
  }

  get top(): number {
    return this.#top;
  }

  get runway(): RowRange {
    return this.#runway;
  }

  get edges(): Edges {
    return this.#cache.edges;
  }

  /** Total rows; null while unknown. */
  get size(): number | null {
    const { start, end } = this.edges;
    if (start !== null && end !== null) return end - start;
    return this.#all?.complete === true ? this.#all.count : null;
  }

  at(row: number): SearchHit | undefined {
    return this.#cache.at(row);
  }

  /** Returns the row number of a message; undefined if the row is not in memory. */
  find(id: string): number | undefined {
    return this.#cache.find(id);
  }

  /** Returns the number of rows before this one; null while unknown. */
  position(row: number): number | null {
    const { start } = this.edges;
    return start === null ? null : row - start;
  }

  count(all: HitCount | null): void {
    if (all === null || all === this.#all) return;
    this.#all = all;
    this.#expectAll();
    this.#runway = this.#around(this.#visible.low);
    this.#notify();
  }

  measure(rowHeight: number): void {
    if (rowHeight === this.rowHeight) return;
    this.rowHeight = rowHeight;
    this.#runway = this.#around(this.#visible.low);
  }

  look(visible: RowRange): void {
    this.#visible = visible;
    if (this.#isGlance) return;
    const isKept = visible.low >= this.#cache.low && visible.high <= this.#cache.high;
    if (this.#rest !== undefined && isKept) return;
    if (visible.high + AHEAD > this.#cache.high) void this.#grow('after');
    if (visible.low - AHEAD < this.#cache.low) void this.#grow('before');
  }

  centre(): void {
    if (!shouldCentre(this.#visible, this.#runway, this.edges)) return;
    this.#runway = this.#around(this.#visible.low);
    this.#notify();
  }

  /**
   * Shows the list from another place. If several calls overlap, only the last one takes effect.
   *
   * @param isGlance true if another seek is about to follow, for example while the timeline is dragged
   */
  async seek(place: Place, isGlance = false): Promise<void> {
    this.#target = { place, isGlance };
    if (this.#isSeeking) return;
    this.#isSeeking = true;
    try {
      while (this.#target !== undefined) {
        const target: Sought = this.#target;
        this.#target = undefined;
        const page = await this.#page(target);
        if (page !== undefined) this.#show(page, target);
      }
    } finally {
      this.#isSeeking = false;
    }
  }

  showAt(row: number): void {
    this.#epoch += 1;
    this.#top = row;
    this.#runway = this.#around(row);
    this.#notify();
  }

  close(): void {
    clearTimeout(this.#rest);
    this.#asking.abort();
    this.#target = undefined;
  }

  async #page({ place, isGlance }: Sought): Promise<ListPage | undefined> {
    const { signal } = this.#asking;
    const page = await this.source.page(place, signal, isGlance);
    if (page === undefined || signal.aborted) return undefined;
    if (page.rows.length > 0 || place.kind === 'last') return page;
    // Nothing follows the place, so the end of the list is shown.
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
    this.#notify();
    if (!isGlance) void this.#locate();
  }

  async #locate(): Promise<void> {
    const cache = this.#cache;
    const row = cache.low;
    const id = cache.at(row)?.line.id;
    if (cache.edges.start !== null || id === undefined) return;
    const { signal } = this.#asking;
    const position = await this.source.position(id, signal);
    if (position === undefined || signal.aborted) return;
    if (position.before.complete) cache.expectBefore(row, position.before.count);
    if (position.all.complete) this.#all = position.all;
    this.#expectAll();
    this.#clip();
    this.#notify();
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
    cache.trim(this.#visible);
    this.#clip();
    this.#notify();
    this.look(this.#visible);
  }

  #clip(): void {
    const { start, end } = this.edges;
    const low = Math.max(this.#runway.low, start ?? -Infinity);
    const high = Math.max(low, Math.min(this.#runway.high, end ?? Infinity));
    if (low !== this.#runway.low || high !== this.#runway.high) this.#runway = { low, high };
  }

  #around(row: number): RowRange {
    return runwayAround(row, this.edges, this.rowHeight);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Times of the first and last rows in view. Milliseconds since the epoch. */
export interface TimeRange {
  readonly top: number;
  readonly bottom: number;
}

/** Publishes the visible time range on every scroll frame, even though components render only at rest. */
export class VisibleTimes {
  #now: TimeRange | null = null;
  readonly #listeners = new Set<(stretch: TimeRange) => void>();

  get now(): TimeRange | null {
    return this.#now;
  }

  set(stretch: TimeRange): void {
    this.#now = stretch;
    for (const changed of this.#listeners) changed(stretch);
  }

  subscribe(changed: (stretch: TimeRange) => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }
}
