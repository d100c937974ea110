import { createContext } from 'preact';
import { useContext, useEffect, useReducer } from 'preact/hooks';
import type { MailCounts, MailRows } from '../mail-list.ts';
import type { MessageContent, NoMessage } from '../pages/message-props.ts';
import type { Frame, Page, PageOf } from '../pages/page.ts';
import { asOfTermText, pageAddress, withAsOf } from '../query-text.ts';
import { liveQuery } from '../typed-word.ts';
import type { QueryProblem } from '../understood-query.ts';

type Task = (signal: AbortSignal) => Promise<void>;

/**
 * Runs one task at a time, and keeps only the latest waiting one. Responses therefore never arrive out of order, and
 * outdated tasks are skipped.
 */
export class LatestTask {
  #current: AbortController | undefined;
  #next: Task | undefined;

  get isWaiting(): boolean {
    return this.#next !== undefined;
  }

  run(task: Task): void {
    this.#next = task;
    if (this.#current === undefined) void this.#work();
  }

  stop(): void {
    this.#current?.abort();
    this.#current = undefined;
    this.#next = undefined;
  }

  async #work(): Promise<void> {
    const current = new AbortController();
    this.#current = current;
    try {
      for (let task = this.#take(); task !== undefined; task = this.#take()) {
        await task(current.signal);
        // After an abort, a later call to `run` takes the waiting task.
        if (current.signal.aborted) return;
      }
    } finally {
      if (this.#current === current) this.#current = undefined;
    }
  }

  #take(): Task | undefined {
    const task = this.#next;
    this.#next = undefined;
    return task;
  }
}

/** Data to load when the address changes. `close` loads nothing. */
type Step = 'page' | 'list' | 'message' | 'close';

/** Paths that the script shows without loading a document. */
const OWN = /^\/(?:mail|files|m\/[0-9a-f]{4,64})$/;

export function isOwnPage({ pathname }: Pick<URL, 'pathname'>): boolean {
  return OWN.test(pathname);
}

/** Parameters of `/mail` that do not change the list. */
const OF_MESSAGE = ['m', 'view', 'from', 'find', 'hit'];

export function stepTo(to: URL, from: URL, shown: Page): Step {
  if (to.pathname !== '/mail' || from.pathname !== '/mail' || shown.kind !== 'mail') return 'page';
  if (listParameters(to) !== listParameters(from)) return 'list';
  return to.searchParams.has('m') ? 'message' : 'close';
}

function listParameters(address: URL): string {
  const parameters = new URLSearchParams(address.search);
  for (const name of [...OF_MESSAGE, 'at']) parameters.delete(name);
  parameters.sort();
  return parameters.toString();
}

/** Thrown if the server answers with an error or cannot be reached. */
export class RequestRefused extends Error {
  override readonly name = 'Refused';

  /** @param status HTTP status; null if there was no response */
  constructor(
    readonly status: number | null,
    options?: ErrorOptions,
  ) {
    super(
      status === null ? 'the server cannot be reached' : `the server answered ${status}`,
      options,
    );
  }
}

/**
 * Fetches data from the server.
 *
 * @param address path under `/api/`, with parameters
 * @throws RequestRefused; the signal's reason if it aborted the request
 */
export function ask<T>(address: string, signal?: AbortSignal): Promise<T> {
  return fetchData(address, { signal: signal ?? null });
}

export function postForm<T>(address: string, fields: Readonly<Record<string, string>>): Promise<T> {
  const headers = { 'x-mailkeep': '1' };
  const body = new URLSearchParams(fields);
  return fetchData(address, { method: 'POST', headers, body });
}

async function fetchData<T>(address: string, options: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address, { ...options, credentials: 'same-origin', redirect: 'error' });
  } catch (error) {
    if (options.signal?.aborted === true) throw error;
    throw new RequestRefused(null, { cause: error });
  }
  if (!answer.ok) throw new RequestRefused(answer.status);
  const { data }: { readonly data: T } = await answer.json();
  return data;
}

/** When the connection was lost, and when to retry. Milliseconds since the epoch. */
interface Lost {
  readonly since: number;
  readonly retryAt: number;
}

/** Maximum wait before an unreachable server is retried. The wait starts at one second and doubles each time. */
const MAX_WAIT_MS = 30_000;

export interface ViewerState {
  readonly page: Page;
  readonly busy: boolean;
  readonly lost: Lost | null;
  readonly failed: boolean;
  /** True if the history bar is open while the page shows the present. */
  readonly isTimeOpen: boolean;
  /** True while the query box asks for the name of a saved search. */
  readonly isSaving: boolean;
  /** Number of updates that the server has reported. */
  readonly news: number;
}

export type RowsAnswer =
  | (MailRows & { readonly problem: null })
  | { readonly problem: QueryProblem };

/** Both reject if the server is unreachable or has been updated. */
interface LaterCode {
  ofPage(page: Page): Promise<void>;
  ofMessage(): Promise<void>;
}

const TYPED_ROWS = 20;
/** Pause in milliseconds after which a typed query gets its own history entry. */
const PAUSE_MS = 1_000;
/** Pause in milliseconds before results are counted, because counting delays the next rows. */
const REST_MS = 150;
const KEPT = ['sort', 'type'];

/** Shows the page for the current address, and navigates. The address alone determines the page. */
export class Viewer {
  #shown: ViewerState;
  #address: URL;
  readonly #listeners = new Set<() => void>();
  /** Aborts requests for an outdated address. */
  #asking = new AbortController();
  /** Aborts requests for the message, which may change while the list loads. */
  #opening = new AbortController();
  readonly #waiting = { list: false, message: false };
  readonly #typing = new LatestTask();
  /** A query being typed, and what is searched for meanwhile. */
  #live: { readonly query: string; readonly searched: string } | null = null;
  #pause: number | undefined;
  #rest: number | undefined;
  /** Failed attempts since the server was last reached. */
  #failures = 0;
  #retryTimer: number | undefined;
  #hasHeard = false;

  constructor(
    page: Page,
    private readonly code: LaterCode,
  ) {
    const still = { busy: false, lost: null, failed: false, isTimeOpen: false, isSaving: false };
    this.#shown = { page, ...still, news: 0 };
    this.#address = new URL(location.href);
    this.#address.hash = '';
    addEventListener('popstate', () => {
      this.#endPause();
      const to = new URL(location.href);
      // The hash only opens the keyboard map over the page.
      if (stripHash(to) !== stripHash(this.#address)) this.#show(to);
    });
  }

  get shown(): ViewerState {
    return this.#shown;
  }

  get address(): URL {
    return this.#address;
  }

  subscribe(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  go(address: string, { replace = false }: { replace?: boolean } = {}): void {
    const to = new URL(address, this.#address);
    if (!isOwnPage(to)) {
      if (replace) location.replace(to);
      else location.assign(to);
      return;
    }
    const isSame = to.href === this.#address.href;
    this.#endPause();
    if (isSame || replace) history.replaceState(null, '', to);
    else history.pushState(null, '', to);
    this.#show(to);
  }

  note(name: string, value: string | null): void {
    const to = new URL(this.#address);
    if (value === null) to.searchParams.delete(name);
    else to.searchParams.set(name, value);
    this.#address = to;
    history.replaceState(null, '', to);
  }

  /**
   * Shows results while a query is typed, with one request at a time.
   *
   * @param caret position of the caret, at which a word may be incomplete; null if the query is complete
   */
  type(query: string, path: '/mail' | '/files' = '/mail', caret: number | null = null): void {
    this.#live = caret === null ? null : { query, searched: liveQuery(query, caret) };
    const to = new URL(path, this.#address);
    if (query !== '') to.searchParams.set('q', query);
    if (this.#address.pathname === path)
      for (const name of KEPT) {
        const value = this.#address.searchParams.get(name);
        if (value !== null) to.searchParams.set(name, value);
      }
    const isNew = this.#pause === undefined;
    clearTimeout(this.#pause);
    this.#pause = window.setTimeout(() => this.#endPause(), PAUSE_MS);
    const isStep = isNew && to.href !== this.#address.href;
    this.#leaveMessage();
    this.#asking.abort();
    this.#asking = new AbortController();
    clearTimeout(this.#rest);
    this.#address = to;
    const { signal: current } = this.#asking;
    const isList = this.#shown.page.kind === 'mail' && path === '/mail';
    this.#typing.run(async (signal) => {
      if (!isList) return this.#loadPage(to, signal, { isTyped: true });
      const isGood = await this.#rows(query, TYPED_ROWS, signal);
      if (!isGood || current.aborted) return;
      this.#rest = window.setTimeout(() => void this.#counts(query, current), REST_MS);
    });
    if (isList) this.#message(null);
    // Only now, so that it does not delay the request.
    if (isStep) history.pushState(null, '', to);
    else history.replaceState(null, '', to);
  }

  /** Returns the address's query as it is searched for. */
  get searched(): string {
    return this.#searchedFor(this.#address.searchParams.get('q') ?? '');
  }

  #searchedFor(query: string): string {
    return this.#live?.query === query ? this.#live.searched : query;
  }

  /** Asks for a query as it is searched for. If that has a problem, asks for the query as typed. */
  async #askLive<T>(
    query: string,
    ask: (searched: string) => Promise<T | undefined>,
    hasProblem: (answer: T) => boolean,
  ): Promise<{ readonly answer: T; readonly searched: string } | undefined> {
    const searched = this.#searchedFor(query);
    const answer = await ask(searched);
    if (answer === undefined) return undefined;
    if (searched === query || !hasProblem(answer)) return { answer, searched };
    if (this.#live?.query === query) this.#live = null;
    const exact = await ask(query);
    return exact && { answer: exact, searched: query };
  }

  #endPause(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }

  /** Shows the page as of a moment in milliseconds since the epoch; null for now. */
  goTo(moment: number | null, options: { readonly replace?: boolean } = {}): void {
    const to = new URL(this.#address);
    to.searchParams.set('q', withAsOf(to.searchParams.get('q') ?? '', moment));
    to.searchParams.delete('after');
    to.searchParams.delete('at');
    if (moment === null) this.#change({ isTimeOpen: false });
    this.go(to.href, options);
  }

  setSaving(isSaving: boolean): void {
    this.#change({ isSaving });
  }

  toggleTime(): void {
    if (this.#shown.page.frame.past !== null) this.goTo(null);
    else this.#change({ isTimeOpen: !this.#shown.isTimeOpen });
  }

  retry(): void {
    if (isOwnPage(this.#address)) this.#show(this.#address, { whole: true });
    else void this.refreshFrame();
  }

  async refreshList(): Promise<void> {
    for (const place of ['at', 'after']) this.note(place, null);
    await this.#list(this.#address.searchParams.get('q') ?? '', this.#asking.signal);
  }

  /** Called for a new commit, and again for the same one once its messages are indexed. */
  reached(commit: number): void {
    const isFirst = !this.#hasHeard;
    this.#hasHeard = true;
    const isNew = commit > this.#shown.page.frame.consistency.commit;
    if (isFirst && !isNew) return;
    this.#change({ news: this.#shown.news + 1 });
    // Counts change with the commit, and again with the index.
    void this.refreshFrame();
    // An empty list has no rows that would move.
    const { page } = this.#shown;
    if (page.kind === 'mail' && page.list?.hits.length === 0) void this.refreshList();
  }

  async refreshFrame(): Promise<void> {
    const query = this.#shown.page.frame.query;
    const frame = await this.asked<Frame>(`/api/frame?q=${encodeURIComponent(query)}`);
    if (frame === undefined || this.#shown.page.frame.query !== query) return;
    this.#change({ page: { ...this.#shown.page, frame } });
  }

  #show(to: URL, { whole = false } = {}): void {
    const step = whole ? 'page' : stepTo(to, this.#address, this.#shown.page);
    // The page for the past moment may not even have loaded.
    if (isPast(this.#address) && !isPast(to)) this.#change({ isTimeOpen: false });
    this.#address = to;
    this.#leaveMessage();
    // The list is the same, so its requests continue.
    if (step === 'close') {
      this.#message(null);
      return;
    }
    if (step === 'message') {
      void this.#open(to, this.#opening.signal);
      return;
    }
    this.#live = null;
    this.#typing.stop();
    clearTimeout(this.#rest);
    this.#asking.abort();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    if (step === 'page') {
      void this.#loadPage(to, signal);
      return;
    }
    if (!to.searchParams.has('m')) this.#message(null);
    void this.#list(to.searchParams.get('q') ?? '', signal, () => {
      // The user may have opened another message or closed this one.
      if (!signal.aborted && this.#address === to && to.searchParams.has('m'))
        void this.#open(to, this.#opening.signal);
    });
  }

  #leaveMessage(): void {
    this.#opening.abort();
    this.#opening = new AbortController();
    this.#wait('message', false);
  }

  #wait(part: 'list' | 'message', isWaiting: boolean): void {
    this.#waiting[part] = isWaiting;
    this.#change({ busy: this.#waiting.list || this.#waiting.message });
  }

  async #loadPage(to: URL, signal: AbortSignal, { isTyped = false } = {}): Promise<void> {
    this.#wait('list', true);
    const query = to.searchParams.get('q') ?? '';
    const found = await this.#askLive(
      query,
      (q) => this.asked<Page>(`/api/page${to.pathname}${withQuery(to, q)}`, signal),
      ({ frame }) => frame.problem !== null,
    );
    if (found === undefined) return;
    const { answer, searched } = found;
    const page = searched === query ? answer : asTyped(answer, query, searched);
    if (!(await this.#loadCode(to, signal, () => this.code.ofPage(page)))) return;
    const isOther = page.kind !== this.#shown.page.kind;
    this.#change({ page });
    this.#wait('list', false);
    if (isOther && !isTyped) document.getElementById('results')?.focus({ preventScroll: true });
  }

  /** Loads code. @returns false if the address is no longer current or the page reloads */
  async #loadCode(to: URL, signal: AbortSignal, load: () => Promise<void>): Promise<boolean> {
    try {
      await load();
    } catch {
      // After a server update, its scripts have different names.
      if (!signal.aborted) location.assign(to);
      return false;
    }
    return !signal.aborted;
  }

  async #open(to: URL, signal: AbortSignal): Promise<void> {
    this.#wait('message', true);
    const query = to.searchParams.get('q') ?? '';
    const code = this.code.ofMessage();
    // `#loadCode` checks the result.
    code.catch(() => undefined);
    const found = await this.asked<MessageContent | NoMessage>(
      `/api/message${withQuery(to, this.#searchedFor(query))}`,
      signal,
    );
    if (found === undefined) return;
    if (found.kind === 'message' && !(await this.#loadCode(to, signal, () => code))) return;
    this.#wait('message', false);
    if (found.kind === 'message') this.#message({ ...found, place: { ...found.place, query } });
    else if (found.kind === 'not-then') {
      // The list shows a moment before the message existed.
      for (const name of ['m', 'view', 'from']) this.note(name, null);
      this.#message(null);
    } else this.go(`/m/${to.searchParams.get('m')}`, { replace: true });
  }

  async #list(query: string, signal: AbortSignal, shown = (): void => {}): Promise<void> {
    const isGood = await this.#rows(query, undefined, signal);
    shown();
    if (isGood) await this.#counts(query, signal);
  }

  /** @returns false if there is nothing to count */
  async #rows(query: string, limit: number | undefined, signal: AbortSignal): Promise<boolean> {
    const { page } = this.#shown;
    if (page.kind !== 'mail') return false;
    this.#wait('list', true);
    const sort = this.#address.searchParams.get('sort') === 'oldest' ? 'oldest' : 'newest';
    const after = this.#address.searchParams.get('after') ?? undefined;
    const found = await this.#askLive(
      query,
      (q) => {
        const parameters = { q, sort, limit: limit?.toString(), after };
        return this.asked<RowsAnswer>(pageAddress('/api/rows', parameters), signal);
      },
      ({ problem }) => problem !== null,
    );
    if (found === undefined) return false;
    const { answer: rows, searched } = found;
    this.#mail((mail) => ({
      ...mail,
      sort,
      after,
      frame: { ...mail.frame, query, problem: rows.problem },
      list: rows.problem === null ? { ...rows, all: null, ended: null, searched } : mail.list,
    }));
    this.#wait('list', false);
    return rows.problem === null;
  }

  async #counts(query: string, signal: AbortSignal): Promise<void> {
    const { page } = this.#shown;
    // Without results, suggestions are for the words as typed.
    const isNothing = page.kind === 'mail' && page.list?.hits.length === 0;
    const q = isNothing ? query : this.#searchedFor(query);
    const parameters = new URLSearchParams({ q });
    const counts = await this.asked<MailCounts | null>(`/api/counts?${parameters}`, signal);
    if (counts != null)
      this.#mail((mail) =>
        mail.frame.query === query && mail.list !== null
          ? { ...mail, list: { ...mail.list, ...counts } }
          : mail,
      );
    const frame = await this.asked<Frame>(`/api/frame?q=${encodeURIComponent(query)}`, signal);
    if (frame !== undefined)
      this.#mail((mail) => (mail.frame.query === query ? { ...mail, frame } : mail));
  }

  #message(message: MessageContent | null): void {
    this.#mail((mail) => ({ ...mail, message }));
  }

  #mail(change: (mail: PageOf<'mail'>) => PageOf<'mail'>): void {
    const { page } = this.#shown;
    if (page.kind === 'mail') this.#change({ page: change(page) });
  }

  /** Fetches data, and reports a lost connection or session. @returns undefined if aborted or failed */
  async asked<T>(address: string, signal?: AbortSignal): Promise<T | undefined> {
    try {
      const data = await ask<T>(address, signal);
      this.#failures = 0;
      if (this.#shown.lost !== null || this.#shown.failed)
        this.#change({ lost: null, failed: false });
      return signal?.aborted === true ? undefined : data;
    } catch (error) {
      if (signal?.aborted === true) return undefined;
      if (!(error instanceof RequestRefused)) throw error;
      if (error.status === null) this.#waitForServer();
      else if (error.status === 401) location.assign('/enter');
      else this.#fail({ failed: true });
      return undefined;
    }
  }

  #fail(change: Pick<Partial<ViewerState>, 'failed' | 'lost'>): void {
    this.#waiting.list = false;
    this.#waiting.message = false;
    this.#change({ busy: false, ...change });
  }

  #waitForServer(): void {
    const now = Date.now();
    let { lost } = this.#shown;
    // Failures before the next retry are counted as one.
    if (lost === null || now >= lost.retryAt) {
      const wait = Math.min(MAX_WAIT_MS, 1_000 * 2 ** this.#failures);
      this.#failures += 1;
      lost = { since: lost?.since ?? now, retryAt: now + wait };
      clearTimeout(this.#retryTimer);
      this.#retryTimer = window.setTimeout(() => {
        if (this.#shown.lost !== null) this.retry();
      }, wait);
    }
    this.#fail({ lost });
  }

  #change(change: Partial<ViewerState>): void {
    const shown = { ...this.#shown, ...change };
    // A history bar that was opened in the present closes when the user leaves the past.
    this.#shown = shown.page.frame.past === null ? shown : { ...shown, isTimeOpen: false };
    for (const changed of this.#listeners) changed();
  }
}

/** A list keeps the query as typed, which is its address. Links of other pages lead to what is searched for. */
function asTyped(page: Page, query: string, searched: string): Page {
  if (page.kind !== 'mail') return page;
  return {
    ...page,
    frame: { ...page.frame, query },
    list: page.list && { ...page.list, searched },
  };
}

/** Returns an address's parameters with another query. */
function withQuery({ searchParams }: URL, query: string): string {
  const parameters = new URLSearchParams(searchParams);
  if (parameters.has('q')) parameters.set('q', query);
  return `?${parameters}`;
}

function isPast({ searchParams }: URL): boolean {
  return asOfTermText(searchParams.get('q') ?? '') !== '';
}

function stripHash({ pathname, search }: URL): string {
  return pathname + search;
}

export const CurrentViewer = createContext<Viewer | null>(null);

export function useViewer(): Viewer {
  const viewer = useContext(CurrentViewer);
  if (viewer === null) throw new TypeError('outside the app');
  return viewer;
}

export function useViewerState(): ViewerState {
  const viewer = useViewer();
  const [, changed] = useReducer<number, undefined>((count) => count + 1, 0);
  useEffect(() => viewer.subscribe(() => changed(undefined)), [viewer]);
  return viewer.shown;
}

/** Returns the address one step back: from a message to its list, from a query to all mail, from the past to now. */
export function backStep(address: URL): string | null {
  const query = address.searchParams.get('q') ?? '';
  if (address.pathname.startsWith('/m/')) return mailAddress(address, query);
  if (address.pathname !== '/mail') return '/mail';
  if (address.searchParams.has('m')) return mailAddress(address, query);
  const moment = asOfTermText(query);
  if (query.trim() === '') return null;
  return mailAddress(address, query.trim() === moment ? '' : moment);
}

function mailAddress({ searchParams }: URL, query: string): string {
  const isSameList = query === (searchParams.get('q') ?? '');
  const kept = isSameList ? ['sort', 'after', 'at'] : ['sort'];
  const parameters = kept.map((name) => [name, searchParams.get(name) ?? undefined]);
  return pageAddress('/mail', { q: query, ...Object.fromEntries(parameters) });
}
