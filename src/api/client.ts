import { createHash } from 'node:crypto';
import { originError } from '../errors/origin.ts';
import type { Operation, Surface } from '../wire/operation.ts';
import type { Page } from './answers.ts';
import { MOST_IDLE_PAGES, MOST_MESSAGE_PAGES, MOST_PAGES } from './limits.ts';
import type { ParamValues } from './request-url.ts';
import {
  type CallOptions,
  type ClientOptions,
  type RawAnswer,
  type SpoolOptions,
  SurfaceClient,
} from './surface-client.ts';
import { tooLarge } from './transport-errors.ts';

/** `perPage` is always sent; 100 when left out. */
export interface PageOptions extends CallOptions {
  readonly page?: number;
  readonly perPage?: number;
}

/** What the clients of both surfaces have in common. */
export abstract class Client {
  protected readonly calls: SurfaceClient;

  /** @throws base-url-invalid */
  constructor(surface: Surface, options: ClientOptions) {
    this.calls = new SurfaceClient(surface, options);
  }

  /** Host and port of the service. */
  get host(): string {
    return this.calls.host;
  }

  /** Breaks what is in flight and lets go of the connections. */
  close(): Promise<void> {
    return this.calls.close();
  }

  /** Calls any operation of the surface; the answer is checked for its type only. */
  call(
    operation: Operation,
    params: ParamValues,
    body?: unknown,
    options?: SpoolOptions,
  ): Promise<RawAnswer> {
    return this.calls.raw(operation, params, body, options);
  }

  /** Every item of every page. */
  protected async *each<T>(
    operation: Operation,
    read: (page: number) => Promise<Page<T>>,
  ): AsyncGenerator<T, void, undefined> {
    for await (const { items } of eachPage(operation, this.host, read)) yield* items;
  }
}

/**
 * Yields the pages of a collection, one request each, on demand, without what the page before showed. Pages are offsets
 * into a set that may change meanwhile: an item can still come twice or not at all. A short page is not the end, and
 * neither is the page size that was asked for: only the service's own total marks the end.
 *
 * @throws origin.paging when pages stop bringing anything new before the total is reached
 * @throws origin.too-large when a total would take more pages than any real collection has
 */
export async function* eachPage<T>(
  operation: Operation,
  host: string,
  read: (page: number) => Promise<Page<T>>,
): AsyncGenerator<Page<T>, void, undefined> {
  const most = MESSAGES.has(operation.name) ? MOST_MESSAGE_PAGES : MOST_PAGES;
  const earlier = new Set<string>();
  let before: ReadonlySet<string> = new Set();
  let shown = 0;
  /** Items of all pages, also those that the page before showed: a set that grows at its beginning shifts them down. */
  let counted = 0;
  let idle = 0;
  for (let page = 1; page <= most; page += 1) {
    const answer = await read(page);
    const prints = answer.items.map(printOf);
    const isRepeated = earlier.has(printOf(prints));
    const items = isRepeated ? [] : answer.items.filter((_, i) => !before.has(prints[i] ?? ''));
    if (!isRepeated) {
      earlier.add(printOf(prints));
      before = new Set(prints);
      counted += answer.items.length;
    }
    shown += items.length;
    yield { ...answer, items };
    if (shown >= answer.total || (items.length === 0 && counted >= answer.total)) return;
    idle = items.length === 0 ? idle + 1 : 0;
    if (idle >= MOST_IDLE_PAGES) {
      const facts = { operation: operation.name, host, page, shown, total: answer.total };
      throw originError('origin.paging', facts);
    }
  }
  throw tooLarge(operation, host, 'pages', most);
}

const MESSAGES: ReadonlySet<string> = new Set(['listMessages', 'searchMessages']);

function printOf(item: unknown): string {
  return createHash('sha256').update(JSON.stringify(item)).digest('base64');
}
