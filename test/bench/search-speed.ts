import { type Catalog, openCatalogReader } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { median } from './figures.ts';
import type { SearchSpeed } from './measurements.ts';
import { generatedQueries, HARD_QUERIES, QUERY_KINDS } from './search-queries.ts';
import { wordOf } from './synthetic-catalog.ts';

const SEARCHES = 200;
const WARM_UP = 40;
const RANKINGS = 20;
const GENERATED = 2_000;
/** As many odd queries as are asked of a larger catalog, where each may take seconds and no target is set. */
const GENERATED_LARGE = 200;
const LARGE = 100_000;
const LIMIT = 20;
/** Ranks of which the hits are counted until one has about as many as are to be ranked. */
const RANKED_HITS = 25_000;
const CANDIDATES = 300;

/** Searches a made-up catalog, as a program that keeps it open does, after each statement was prepared once. */
export function measureSearches(dir: string, messages: number, seed: number): SearchSpeed {
  const catalog = openCatalogReader(dir);
  try {
    const kinds = QUERY_KINDS.map(({ name, query }) => ({
      name,
      ms: timed(SEARCHES, WARM_UP, (i) => newest(catalog, query(i))),
    }));
    const { word, hits } = wordToRank(catalog);
    const { node } = parseQuery(word, { now: Date.now() });
    const page = { limit: LIMIT, sort: 'relevance' } as const;
    const relevance = {
      hits,
      ms: timed(RANKINGS, 3, () => catalog.prepare({ node }).page(page)),
    };
    const odd = generatedQueries(messages > LARGE ? GENERATED_LARGE : GENERATED, seed);
    return { messages, kinds, relevance, slowest: slowest(catalog, odd, seed) };
  } finally {
    catalog.close();
  }
}

function newest(catalog: Catalog, query: string): void {
  const { node } = parseQuery(query, { now: Date.now() });
  catalog.prepare({ node }).page({ limit: LIMIT, sort: 'newest' });
}

function timed(count: number, warmUp: number, act: (i: number) => void): number {
  const times: number[] = [];
  for (let i = 0; i < warmUp + count; i += 1) {
    const started = performance.now();
    act(i);
    if (i >= warmUp) times.push(performance.now() - started);
  }
  return median(times);
}

/** The rarest of the common words that still has as many hits as are to be ranked. */
function wordToRank(catalog: Catalog): { readonly word: string; readonly hits: number } {
  let best = { word: wordOf(0), hits: 0 };
  for (let rank = 0; rank < CANDIDATES; rank += 1) {
    const word = wordOf(rank);
    const hits = catalog.prepare({ node: parseQuery(word, { now: Date.now() }).node }).count();
    if (hits >= RANKED_HITS && (best.hits === 0 || hits < best.hits)) best = { word, hits };
    else if (best.hits > 0 && hits < RANKED_HITS) break;
  }
  return best;
}

/** The longest that any query takes of those that are generated or known to be hard; best of two, for the machine's sake. */
function slowest(catalog: Catalog, odd: readonly string[], seed: number): SearchSpeed['slowest'] {
  let worst = { ms: 0, query: '' };
  let refused = 0;
  const queries = [...HARD_QUERIES, ...odd];
  for (const query of queries) {
    for (const way of ['newest', 'oldest', 'relevance', 'count'] as const) {
      const first = took(catalog, query, way);
      if (first === undefined) {
        refused += 1;
        continue;
      }
      if (first <= worst.ms) continue;
      const ms = Math.min(first, took(catalog, query, way) ?? first);
      if (ms > worst.ms) worst = { ms, query: `${query} (${way})` };
    }
  }
  return { ...worst, queries: queries.length, refused, seed };
}

/** Milliseconds of a search; undefined when it is refused. */
function took(
  catalog: Catalog,
  query: string,
  way: 'newest' | 'oldest' | 'relevance' | 'count',
): number | undefined {
  const started = performance.now();
  try {
    const { node, asOf } = parseQuery(query, { now: Date.now() });
    const request = { node, ...(asOf === null ? {} : { asOf }) };
    if (way === 'count') catalog.prepare(request).count();
    else catalog.prepare(request).page({ limit: LIMIT, sort: way });
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'usage') return undefined;
    throw error;
  }
  return performance.now() - started;
}
