import { useEffect, useRef, useState } from 'preact/hooks';
import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { ListSort, ListSpine } from '../mail-list.ts';
import type { ListProps } from '../pages/mail-page.tsx';
import { ONE_COLUMN } from './focus.ts';
import type { RowPage } from './list-model.ts';
import type { RowsAnswer, Viewer } from './viewer.ts';

const PAGE_ROWS = 100;
/** Rows that are enough to fill the view. */
const GLANCE_ROWS = 40;
/** Maximum requests for a page that find no row before time runs out. */
const TRIES = 20;

export type Place =
  | { readonly kind: 'first' | 'last' }
  /** `from` is an id or a cursor from an answer. */
  | { readonly kind: 'after' | 'before' | 'at'; readonly from: string }
  /** Milliseconds since the epoch. */
  | { readonly kind: 'time'; readonly time: number };

export type ListPage = RowPage<SearchHit>;

export type ListQuery = Pick<ListProps, 'query' | 'sort'>;
type Position = Readonly<Record<'before' | 'all', HitCount>>;
/** Messages that have arrived since a list was loaded; with `isMore`, at least that many. */
type NewMail = Awaited<ReturnType<RowSource['newerThan']>>;
type SpineAnswer = (ListSpine & { readonly problem: null }) | { readonly problem: object };

/** Resolves to undefined if there is no answer, which the viewer reports. */
type Ask = <T>(address: string, signal: AbortSignal) => Promise<T | undefined>;

export class RowSource {
  constructor(
    private readonly of: ListQuery,
    private readonly ask: Ask,
  ) {}

  /** @param isGlance whether a few rows are enough @returns undefined without an answer */
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
    const found = await this.ask<Position | null>(`/api/position?${parameters}`, signal);
    return found ?? undefined;
  }

  /** @returns null if the list is empty, undefined without an answer */
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

  async spine(signal: AbortSignal): Promise<ListSpine | undefined> {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const parameters = new URLSearchParams({ q: this.of.query, tz: timeZone });
    const answer = await this.ask<SpineAnswer>(`/api/spine?${parameters}`, signal);
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

/** While a key is held down, a message opens only after this pause. Milliseconds. */
const REST_MS = 120;

/** Opens the messages of a list. The reading pane follows a selection by keys. */
export class FollowingPane {
  #opened: string | undefined;
  #moved = -Infinity;
  #timer: number | undefined;

  constructor(private readonly viewer: Viewer) {}

  /** Whether a message was opened here, rather than by a link or the browser's history. */
  hasOpened(id: string): boolean {
    return this.#opened === id;
  }

  open(id: string, address: string, replaces: boolean): void {
    clearTimeout(this.#timer);
    this.#opened = id;
    this.viewer.go(address, { replace: replaces });
  }

  /** @param isOpen whether another message is open, which this one replaces in the history */
  follow(id: string, address: string, isOpen: boolean): void {
    // In one column, only an explicit key opens a message.
    if (!isOpen && matchMedia(ONE_COLUMN).matches) return;
    const now = performance.now();
    const isFast = now - this.#moved < REST_MS;
    this.#moved = now;
    clearTimeout(this.#timer);
    if (!isFast) {
      this.open(id, address, isOpen);
      return;
    }
    const here = this.#place();
    this.#timer = window.setTimeout(() => {
      // The user may have gone elsewhere since.
      if (this.#place() === here) this.open(id, address, isOpen);
    }, REST_MS);
  }

  /** The address without the top row of the list, which changes while scrolling. */
  #place(): string {
    const place = new URL(this.viewer.address);
    place.searchParams.delete('at');
    return place.href;
  }
}

/**
 * Returns the mail that arrived after a list was made; null if there is none.
 *
 * @param newest the list's newest message, null if it was empty; undefined if it must be looked up
 * @param news number of updates reported by the server
 */
export function useNewMail(
  source: RowSource,
  newest: string | null | undefined,
  news: number,
): NewMail {
  const [fresh, setFresh] = useState<NewMail>();
  const known = useRef<string | null | undefined>(newest);
  const made = useRef(news);
  useEffect(() => {
    setFresh(undefined);
    known.current = newest;
    made.current = news;
    if (newest !== undefined) return undefined;
    const asking = new AbortController();
    void source.newest(asking.signal).then((found) => {
      if (!asking.signal.aborted) known.current = found;
    });
    return () => asking.abort();
    // Not again for later updates.
  }, [source]);
  useEffect(() => {
    const { current } = known;
    if (news === made.current || current === undefined) return undefined;
    const asking = new AbortController();
    void source.newerThan(current, asking.signal).then((found) => {
      if (found !== undefined && found.count > 0 && !asking.signal.aborted) setFresh(found);
    });
    return () => asking.abort();
  }, [source, news]);
  return fresh;
}
