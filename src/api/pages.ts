import type { Operation } from '../wire/operation.ts';
import type { Page } from './answers.ts';
import { MOST_PAGES } from './limits.ts';
import { tooLarge } from './transport-errors.ts';

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

/** Every item of every page. */
export async function* eachItem<T>(
  pages: AsyncIterable<Page<T>>,
): AsyncGenerator<T, void, undefined> {
  for await (const { items } of pages) yield* items;
}
