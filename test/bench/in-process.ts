import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { median } from './figures.ts';

/** Searches of each query; the first ones fill SQLite's cache and let the code be compiled. */
const WARM_UP = 50;
const SEARCHES = 200;

export interface InProcessSearch {
  /** Median time of the newest 20 hits, with their lines and snippets, from the text of the query on. */
  readonly ms: number;
  /** Hits in all. */
  readonly hits: number;
}

/** What a program that keeps the catalog open pays for a search. */
export function searchInProcess(dir: string, query: string): InProcessSearch {
  const catalog = openCatalogReader(dir);
  try {
    const prepare = () => catalog.prepare({ node: parseQuery(query, { now: Date.now() }).node });
    const times: number[] = [];
    for (let i = 0; i < WARM_UP + SEARCHES; i++) {
      const started = performance.now();
      prepare().page({ limit: 20, sort: 'newest' });
      if (i >= WARM_UP) times.push(performance.now() - started);
    }
    return { ms: median(times), hits: prepare().count() };
  } finally {
    catalog.close();
  }
}
