import type { SearchHit } from '../../../catalog/search/hit.ts';
import type { HitCount } from '../../../catalog/search/search.ts';
import type { ListSort } from '../../reading/list-place.ts';
import type { MailRows } from '../../reading/mail-list.ts';
import type { ListSpine } from '../../reading/spine.ts';
import type { RowPage } from './row-cache.ts';

/** Rows of a page. */
const PAGE_ROWS = 100;
/** Rows of a page that the next one is about to replace: as many as are in view. */
const GLANCE_ROWS = 40;
/** Answers that ran out of time before they found a row, at most, for one page. */
const TRIES = 20;

/** Where in the list a page is wanted. */
export type Place =
  | { readonly kind: 'first' | 'last' }
  /** The rows behind a place, before it, or from it on: an id, or what an answer gave to continue with. */
  | { readonly kind: 'after' | 'before' | 'at'; readonly from: string }
  /** The rows from this moment on. Milliseconds since the epoch. */
  | { readonly kind: 'time'; readonly time: number };

export type ListPage = RowPage<SearchHit>;

/** What a list shows. */
export interface ListQuery {
  readonly query: string;
  readonly sort: ListSort;
}

/** Messages that came after a list was made; with `isMore`, at least so many. */
export interface NewMail {
  readonly count: number;
  readonly isMore: boolean;
}

/** How many rows come before one, and how many there are in all. */
export interface RowPosition {
  readonly before: HitCount;
  readonly all: HitCount;
}

type RowsAnswer = (MailRows & { readonly problem: null }) | { readonly problem: object };
type SpineAnswer = (ListSpine & { readonly problem: null }) | { readonly problem: object };

/** Asks the server; undefined where there is no answer, which the window says elsewhere. */
type Ask = <T>(address: string, signal: AbortSignal) => Promise<T | undefined>;

/** Asks the server for rows of one query. */
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
