import type { SearchNode } from '../search/ast.ts';
import type { Connection } from './connection.ts';
import { flagSetRows } from './flag-set-rows.ts';
import { folderNames } from './folder-names.ts';
import { commitAt } from './moments.ts';
import type { PlaceQueries } from './places.ts';
import { chooseDriver, type Drive } from './search-driver.ts';
import { alternatives } from './search-formula.ts';
import { hitReader, type SearchHit } from './search-hit.ts';
import { type Names, resolve, type UnknownName } from './search-resolve.ts';
import { type AsOf, type Direction, needsMatch, ranked, walks } from './search-sql.ts';
import { merged } from './search-walk.ts';

export interface SearchRequest {
  /** See `search/parse.ts`. */
  readonly node: SearchNode;
  readonly limit: number;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  /** What the archive had observed at this time, milliseconds since the epoch. */
  readonly asOf?: number;
  /** Goes on behind the hit with this docid; not with relevance, whose order has no such place. */
  readonly after?: number;
}

export interface SearchResult {
  readonly hits: readonly SearchHit[];
  /** Folders and mailboxes that the query names and the archive has not. */
  readonly unknown: readonly UnknownName[];
}

/** How a search is run, for `--explain`. */
export interface SearchPlan {
  readonly drives: readonly { readonly driver: string; readonly sql: readonly string[] }[];
  readonly unknown: readonly UnknownName[];
}

/** What prefixes of ids stand for. */
export type IdLookup = (prefix: string) => readonly number[];

/**
 * Searches everything ever seen, in one read transaction.
 *
 * @throws `search-too-complex`
 */
export function search(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  ids: IdLookup,
  request: SearchRequest,
): SearchResult {
  return connection.snapshot(() => {
    const { drives, unknown, asOf, names } = prepared(connection, ids, request);
    const read = hitReader(connection, places, names, request.node, asOf);
    const hits: SearchHit[] = [];
    for (const docid of docids(connection, drives, request, asOf)) {
      if (hits.length >= request.limit) break;
      const hit = read(docid);
      if (hit !== undefined) hits.push(hit);
    }
    return { hits, unknown };
  });
}

/** How many messages a query finds in all. */
export function countHits(
  connection: Connection,
  ids: IdLookup,
  request: Pick<SearchRequest, 'node' | 'asOf'>,
): number {
  return connection.snapshot(() => {
    const { drives, asOf } = prepared(connection, ids, request);
    let count = 0;
    for (const docid of walked(connection, drives, 'newest', asOf)) count += docid > 0 ? 1 : 0;
    return count;
  });
}

/** How a search would be run. */
export function explainSearch(
  connection: Connection,
  ids: IdLookup,
  request: SearchRequest,
): SearchPlan {
  const { drives, unknown, asOf } = prepared(connection, ids, request);
  const direction = request.sort === 'oldest' ? 'oldest' : 'newest';
  return {
    unknown,
    drives: drives.map(({ conjunct, driver }) => ({
      driver: driver.by,
      sql: statements({ conjunct, driver }, direction, asOf).map(({ sql, params }) =>
        params.reduce((text, param) => text.replace('?', () => `'${param}'`), sql),
      ),
    })),
  };
}

function prepared(
  connection: Connection,
  ids: IdLookup,
  request: Pick<SearchRequest, 'node' | 'asOf' | 'after'> & { readonly sort?: string },
) {
  const asOf = request.asOf === undefined ? null : commitAt(connection, request.asOf);
  const folders = folderNames(connection, asOf ?? undefined);
  const unknown: UnknownName[] = [];
  const names: Names = {
    folders,
    flagSets: () => flagSetRows(connection),
    byIdPrefix: ids,
  };
  const formula = resolve(request.node, names, (name) => unknown.push(name));
  const { after, sort } = request;
  const bounded = alternatives(formula).map((conjunct) => {
    if (after === undefined || sort === 'relevance') return conjunct;
    return sort === 'oldest'
      ? { ...conjunct, low: Math.max(conjunct.low, after + 1) }
      : { ...conjunct, high: Math.min(conjunct.high, after) };
  });
  const drives = bounded
    .filter(({ low, high }) => low < high)
    .map((conjunct) => chooseDriver(connection, conjunct, asOf));
  return { asOf, unknown, drives, names: folders };
}

function docids(
  connection: Connection,
  drives: readonly Drive[],
  { sort, limit }: SearchRequest,
  asOf: AsOf,
): Iterable<number> {
  return sort === 'relevance'
    ? byRelevance(connection, drives, limit, asOf)
    : walked(connection, drives, sort, asOf);
}

function walked(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  asOf: AsOf,
): Generator<number, void, undefined> {
  return merged(
    connection,
    drives.flatMap((drive) => statements(drive, direction, asOf)),
    direction,
  );
}

function statements({ conjunct, driver }: Drive, direction: Direction, asOf: AsOf) {
  return walks(conjunct, driver, direction, asOf);
}

/** The best of each alternative, put together: the lowest bm25 first, and the newest of equal ones. */
function byRelevance(
  connection: Connection,
  drives: readonly Drive[],
  limit: number,
  asOf: AsOf,
): number[] {
  const ranks = new Map<number, number>();
  for (const drive of drives) {
    const { conjunct } = drive;
    if (needsMatch(conjunct)) {
      const { sql, params } = ranked(conjunct, limit, asOf);
      for (const { docid, rank } of connection.text<{ docid: number; rank: number }>(sql, params))
        ranks.set(docid, Math.min(rank, ranks.get(docid) ?? 0));
      continue;
    }
    let left = limit;
    for (const docid of walked(connection, [drive], 'newest', asOf)) {
      if (left === 0) break;
      left -= 1;
      ranks.set(docid, ranks.get(docid) ?? 0);
    }
  }
  return [...ranks]
    .sort(([a, rankA], [b, rankB]) => rankA - rankB || b - a)
    .slice(0, limit)
    .map(([docid]) => docid);
}
