import { useEffect, useRef, useState } from 'preact/hooks';
import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { ListSort, ListSpine, MailRows } from '../mail-list.ts';
import { ONE_COLUMN } from './focus.ts';
import type { RowPage } from './list-model.ts';
import type { Viewer } from './viewer.ts';

const PAGE_ROWS = 100;
/** Rows of a page that the next one is about to replace: as many as are in view. */
const GLANCE_ROWS = 40;
/** Answers that ran out of time before they found a row, at most, for one page. */
const TRIES = 20;

export type Place =
  | { readonly kind: 'first' | 'last' }
  /** The rows behind a place, before it, or from it on: an id, or what an answer gave to continue with. */
  | { readonly kind: 'after' | 'before' | 'at'; readonly from: string }
  /** The rows from this moment on. Milliseconds since the epoch. */
  | { readonly kind: 'time'; readonly time: number };

export type ListPage = RowPage<SearchHit>;

export interface ListQuery {
  readonly query: string;
  readonly sort: ListSort;
}

/** Messages that came after a list was made; with `isMore`, at least so many. */
export interface NewMail {
  readonly count: number;
  readonly isMore: boolean;
}

interface RowPosition {
  readonly before: HitCount;
  readonly all: HitCount;
}

type RowsAnswer = (MailRows & { readonly problem: null }) | { readonly problem: object };
type SpineAnswer = (ListSpine & { readonly problem: null }) | { readonly problem: object };

/** Asks the server; undefined where there is no answer, which the window says elsewhere. */
type Ask = <T>(address: string, signal: AbortSignal) => Promise<T | undefined>;

export class RowSource {
  constructor(
    private readonly of: ListQuery,
    private readonly ask: Ask,
  ) {}

  /**
   * Returns the page at a place; undefined where there is no answer. It has no rows only where there are none.
   *
   * @param isGlance whether few rows will do
   */
  async page(place: Place, signal: AbortSignal, isGlance = false): Promise<ListPage | undefined> {
    const { sort } = this.of;
    const limit = isGlance ? GLANCE_ROWS : PAGE_ROWS;
    if (place.kind === 'last') {
      // The last page is the first one of the other order.
      const page = await this.#page(otherSort(sort), { kind: 'first' }, limit, signal);
      return page && { rows: page.rows.toReversed(), previous: page.next, next: null };
    }
    return this.#page(sort, place, limit, signal);
  }

  /** Returns where in the list a message is; undefined where there is no answer. */
  async position(id: string, signal: AbortSignal): Promise<RowPosition | undefined> {
    const { query: q, sort } = this.of;
    const parameters = new URLSearchParams({ q, sort, at: id });
    const found = await this.ask<RowPosition | null>(`/api/position?${parameters}`, signal);
    return found ?? undefined;
  }

  /** Returns the id of the newest message; null where there is none, undefined where there is no answer. */
  async newest(signal: AbortSignal): Promise<string | null | undefined> {
    const answer = await this.#rows('newest', { kind: 'first' }, 1, signal);
    return answer && (answer.hits[0]?.line.id ?? null);
  }

  /**
   * Returns how many messages are newer than one, as far as one page counts them.
   *
   * @param id null where the list was empty
   */
  async newerThan(id: string | null, signal: AbortSignal): Promise<NewMail | undefined> {
    const place: Place = id === null ? { kind: 'first' } : { kind: 'before', from: id };
    const answer = await this.#rows('newest', place, PAGE_ROWS, signal);
    if (answer === undefined) return undefined;
    const isMore = id === null ? answer.next !== null : answer.previous !== null;
    return { count: answer.hits.length, isMore };
  }

  /** Returns when the messages were received; undefined where that is not known. */
  async spine(signal: AbortSignal): Promise<ListSpine | undefined> {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const parameters = new URLSearchParams({ q: this.of.query, tz: timeZone });
    const answer = await this.ask<SpineAnswer>(`/api/spine?${parameters}`, signal);
    return answer === undefined || answer.problem !== null ? undefined : answer;
  }

  async #page(
    sort: ListSort,
    place: Place,
    limit: number,
    signal: AbortSignal,
  ): Promise<ListPage | undefined> {
    let asked = place;
    let previous: string | null | undefined;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const answer = await this.#rows(sort, asked, limit, signal);
      if (answer === undefined) return undefined;
      const isBackward = place.kind === 'before';
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

  async #rows(
    sort: ListSort,
    place: Place,
    limit: number,
    signal: AbortSignal,
  ): Promise<MailRows | undefined> {
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

/** A key that is held down moves on before a message is there: it is opened once the keys rest. Milliseconds. */
const REST_MS = 120;

/** Opens messages of the list, and lets the reading pane follow what is selected by keys. */
export class FollowingPane {
  #opened: string | undefined;
  #moved = -Infinity;
  #timer: number | undefined;

  constructor(private readonly viewer: Viewer) {}

  /** Whether a message is the last one that was opened here, and not by a link or the way back. */
  hasOpened(id: string): boolean {
    return this.#opened === id;
  }

  /** @param replaces whether it takes the place of the message before in the history */
  open(id: string, address: string, replaces: boolean): void {
    clearTimeout(this.#timer);
    this.#opened = id;
    this.viewer.go(address, { replace: replaces });
  }

  /** @param isOpen whether a message is read already: the next one takes its place in the history */
  follow(id: string, address: string, isOpen: boolean): void {
    // Where list and message are one column, only a key that opens does that.
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
      // Meanwhile the way may have led elsewhere: back to the list alone, or to another one.
      if (this.#place() === here) this.open(id, address, isOpen);
    }, REST_MS);
  }

  /** The address without the row at the top of the list, which changes by itself. */
  #place(): string {
    const place = new URL(this.viewer.address);
    place.searchParams.delete('at');
    return place.href;
  }
}

/**
 * Returns what came since a list was made; null where nothing has.
 *
 * @param newest the newest message that the list was made with, null where it was empty; undefined where it is to be
 *   found out
 * @param news how often the server has reported something new
 */
export function useNewMail(
  source: RowSource,
  newest: string | null | undefined,
  news: number,
): NewMail | null {
  const [fresh, setFresh] = useState<NewMail | null>(null);
  const known = useRef<string | null | undefined>(newest);
  const made = useRef(news);
  useEffect(() => {
    setFresh(null);
    known.current = newest;
    made.current = news;
    if (newest !== undefined) return undefined;
    const asking = new AbortController();
    void source.newest(asking.signal).then((found) => {
      if (!asking.signal.aborted) known.current = found;
    });
    return () => asking.abort();
    // With each list once, whatever is reported meanwhile.
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
