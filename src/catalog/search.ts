import { searchError } from '../errors/search.ts';
import type { SearchNode } from '../search/ast.ts';
import { archiveNames } from './archive-names.ts';
import type { Connection } from './connection.ts';
import { commitAt } from './moments.ts';
import type { PlaceQueries } from './places.ts';
import { chooseDriver, type Drive } from './search-driver.ts';
import { alternatives, type Conjunct } from './search-formula.ts';
import { hitReader, type SearchHit } from './search-hit.ts';
import { type Names, resolve, type UnknownName } from './search-resolve.ts';
import { type AsOf, counted, ranked, walks } from './search-sql.ts';
import { walkDrives } from './search-walk.ts';
import { threadNaming, threadOf } from './threads.ts';

export interface SearchRequest {
  /** See `search/parse.ts`. */
  readonly node: SearchNode;
  readonly limit: number;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  /** What the archive had observed at this time, milliseconds since the epoch. */
  readonly asOf?: number;
  /** Hosts of the configured accounts by their names in lower case, for `account:`. */
  readonly accounts?: ReadonlyMap<string, string>;
  /** Goes on behind the hit with this docid; not with relevance, whose order has no such place. */
  readonly after?: number;
}

export interface SearchResult {
  readonly hits: readonly SearchHit[];
  /** Folders and mailboxes that the query names and the archive has not. */
  readonly unknown: readonly UnknownName[];
}

/** What counting needs to know. */
export type CountRequest = Pick<SearchRequest, 'node' | 'asOf' | 'accounts'>;

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
export function countHits(connection: Connection, ids: IdLookup, request: CountRequest): number {
  return connection.snapshot(() => {
    const { drives, asOf } = prepared(connection, ids, request);
    // One selective side is walked; what is not selective, or mixed, SQLite counts without telling us each message.
    if (
      drives.length !== 1 ||
      drives.every(({ driver }) => driver.by === 'match' || driver.by === 'all')
    ) {
      const { sql, params } = counted(
        drives.map(({ conjunct }) => conjunct),
        asOf,
      );
      for (const { n } of connection.text<{ n: number }>(sql, params)) return n;
    }
    let count = 0;
    for (const docid of walkDrives(connection, drives, 'newest', asOf)) count += docid > 0 ? 1 : 0;
    return count;
  });
}

/** Docids of all messages that a query finds, newest first. Reading goes on while they are taken. */
export function* foundDocids(
  connection: Connection,
  ids: IdLookup,
  request: Pick<SearchRequest, 'node' | 'asOf'>,
): Generator<number, void, undefined> {
  const { drives, asOf } = prepared(connection, ids, request);
  yield* walkDrives(connection, drives, 'newest', asOf);
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
    drives: drives.map(({ conjunct, driver, stretch }) => ({
      driver: driver.by === 'both' ? `match and ${driver.rare.by}` : driver.by,
      sql: walks({ ...conjunct, ...stretch }, driver, direction, asOf).map(({ sql, params }) =>
        params.reduce<string>(
          (text, param) =>
            text.replace('?', () => (typeof param === 'bigint' ? `${param}` : `'${param}'`)),
          sql,
        ),
      ),
    })),
  };
}

function prepared(
  connection: Connection,
  ids: IdLookup,
  request: CountRequest & Pick<SearchRequest, 'after'> & { readonly sort?: string },
) {
  const asOf = request.asOf === undefined ? null : commitAt(connection, request.asOf);
  const { folders, flagSets } = archiveNames(connection, asOf);
  const unknown: UnknownName[] = [];
  const names: Names = {
    folders,
    flagSets,
    byIdPrefix: ids,
    threadOf: (docid) => threadOf(connection, docid),
    threadNaming: (messageId) => threadNaming(connection, messageId),
    accounts: request.accounts ?? new Map(),
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
    .map((conjunct) =>
      chooseDriver(connection, conjunct, asOf, sort === 'oldest' ? 'oldest' : 'newest'),
    )
    .filter(({ conjunct }) => conjunct.low < conjunct.high);
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
    : walkDrives(connection, drives, sort, asOf);
}

/** Words that are ranked by: each costs a look at all its places in every hit. */
const RANKED_LIMIT = 16;
/** Hits that are ranked in all, the newest of each alternative: what ranking takes must not grow with the archive. */
const RANKED_HITS = 50_000;

/** @throws `search-too-complex` */
function checkRanked(drives: readonly Drive[]): void {
  const words = drives.reduce((sum, { conjunct }) => sum + rankedWords(conjunct), 0);
  if (words > RANKED_LIMIT)
    throw searchError('search-too-complex', { limit: RANKED_LIMIT, of: 'ranked' });
}

function rankedWords({ has }: Pick<Conjunct, 'has'>): number {
  return has
    .flatMap((expression) => expression.match(STRINGS) ?? [])
    .filter((string) => !string.startsWith('meta')).length;
}

/** How many hits of an alternative are ranked: the fewer, the more words each is looked through for. */
function rankedHits({ has }: Conjunct, alternatives: number): number {
  const stars = has.reduce((sum, expression) => sum + (expression.match(STARRED)?.length ?? 0), 0);
  const words = rankedWords({ has }) + STAR_WEIGHT * stars;
  return Math.ceil(RANKED_HITS / alternatives / Math.max(1, words / FEW_WORDS));
}

/** Up to here words cost about the same, since a hit itself has a cost. */
const FEW_WORDS = 3;
/** Words that one with a star counts for besides. */
const STAR_WEIGHT = 3;
const STARRED = /" \*/g;

/** Words and phrases in an expression of ours; those of the meta column, which has no weight, begin with its name. */
const STRINGS = /(?:- )?(?:meta : )?"[^"]*"/g;

/** The best of each alternative, put together: the lowest bm25 first, and the newest of equal ones. */
function byRelevance(
  connection: Connection,
  drives: readonly Drive[],
  limit: number,
  asOf: AsOf,
): number[] {
  checkRanked(drives);
  const ranks = new Map<number, number>();
  for (const drive of drives) {
    const { conjunct, driver } = drive;
    // Without a word that is ranked all are equal, and the newest of equal ones come first.
    if (rankedWords(conjunct) > 0) {
      const { sql, params } = ranked(
        conjunct,
        driver,
        limit,
        rankedHits(conjunct, drives.length),
        asOf,
      );
      for (const { docid, rank } of connection.text<{ docid: number; rank: number }>(sql, params))
        ranks.set(docid, Math.min(rank, ranks.get(docid) ?? 0));
      continue;
    }
    let left = limit;
    for (const docid of walkDrives(connection, [drive], 'newest', asOf)) {
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
