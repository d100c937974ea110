import type { Operation, Surface } from '../wire/operation.ts';
import type { Page } from './answers.ts';
import { MOST_PAGES } from './limits.ts';
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
 * Yields every page of a collection, the first to the last, one request each, on demand. Pages are offsets into a
 * set that may change meanwhile: an item can then come twice or not at all. A short page is not the end; only the
 * service's own total marks it.
 *
 * @throws origin.too-large when a total would take more pages than any real collection has
 */
export async function* eachPage<T>(
  operation: Operation,
  host: string,
  read: (page: number) => Promise<Page<T>>,
): AsyncGenerator<Page<T>, void, undefined> {
  for (let page = 1; ; page += 1) {
    if (page > MOST_PAGES) throw tooLarge(operation, host, 'pages', MOST_PAGES);
    const answer = await read(page);
    yield answer;
    // A service may give fewer items a page than asked for: its own number counts.
    if (page * answer.perPage >= answer.total) return;
  }
}
