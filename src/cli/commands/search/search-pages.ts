import type { Catalog } from '../../../catalog/catalog.ts';
import type { SearchRequest, SearchResult } from '../../../catalog/search/search.ts';

/** Hits that are held in memory at once. */
const PAGE = 2_000;

/**
 * Returns the hits of a search in pages, of which the first names what is unknown. So a search without a limit fits into
 * memory; by relevance, which cannot be continued, there is one page.
 */
export function* searchPages(
  { search }: Pick<Catalog, 'search'>,
  request: SearchRequest,
): Generator<SearchResult, void, undefined> {
  let { limit, after } = request;
  for (;;) {
    const most = request.sort === 'relevance' ? limit : Math.min(limit, PAGE);
    const page = search({
      ...request,
      limit: most,
      ...(after === undefined ? {} : { after }),
    });
    yield page;
    limit -= most;
    after = page.hits.at(-1)?.docid;
    if (after === undefined || page.hits.length < most || limit <= 0) return;
  }
}
