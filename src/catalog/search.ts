import { searchError } from '../errors/search.ts';
import type { SearchNode } from '../search/ast.ts';
import { archiveNames } from './archive-names.ts';
import type { Connection } from './connection.ts';
import { commitAt } from './moments.ts';
import type { PlaceQueries } from './places.ts';
import { chooseDriver, type Drive, isSparse } from './search-driver.ts';
import { alternatives, type Conjunct, starsIn } from './search-formula.ts';
import { hitReader, type SearchHit } from './search-hit.ts';
import { type Names, resolve, type UnknownName } from './search-resolve.ts';
import { SetSearch } from './search-sets.ts';
import {
  type AsOf,
  counted,
  type Direction,
  ranked,
  rankedAmong,
  type Sql,
  walks,
} from './search-sql.ts';
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
    const [only] = drives;
    if (only === undefined) return 0;
    const byIndex = drives.length === 1 ? counted(only.conjunct, asOf) : undefined;
    if (byIndex !== undefined)
      for (const { n } of connection.text<{ n: number }>(byIndex.sql, byIndex.params)) return n;
    if (!isSparse(connection, drives, 'newest')) return setsOf(connection, drives, asOf).count();
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
  if (!isWalked(connection, drives, direction))
    return {
      unknown,
      drives: [{ driver: 'sets', sql: setsOf(connection, drives, asOf).lists().map(shown) }],
    };
  return {
    unknown,
    drives: drives.map(({ conjunct, driver, stretch }) => ({
      driver: driver.by === 'both' ? `match and ${driver.rare.by}` : driver.by,
      sql: walks({ ...conjunct, ...stretch }, driver, direction, asOf).map(shown),
    })),
  };
}

function shown({ sql, params }: Sql): string {
  return params.reduce<string>(
    (text, param) =>
      text.replace('?', () => (typeof param === 'bigint' ? `${param}` : `'${param}'`)),
    sql,
  );
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
    : inOrder(connection, drives, sort, asOf);
}

function inOrder(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  asOf: AsOf,
): Iterable<number> {
  return isWalked(connection, drives, direction)
    ? walkDrives(connection, drives, direction, asOf)
    : setsOf(connection, drives, asOf).walk(direction);
}

/**
 * One alternative is walked. Several are walked side by side where they have few candidates; else each would look for
 * its next hit, however far that is, and ask about the same messages again.
 */
function isWalked(connection: Connection, drives: readonly Drive[], direction: Direction): boolean {
  return drives.length < 2 || isSparse(connection, drives, direction);
}

function setsOf(connection: Connection, drives: readonly Drive[], asOf: AsOf): SetSearch {
  return new SetSearch(
    connection,
    drives.map(({ conjunct }) => conjunct),
    asOf,
  );
}

/** Words that are ranked by: each costs a look at all its places in every hit. */
const RANKED_LIMIT = 16;
/** Hits that are ranked, the newest: what ranking takes must not grow with the archive. */
const RANKED_HITS = 50_000;
/** The same of several alternatives, whose hits have to be found before, and listed to be ranked. */
const RANKED_AMONG = 25_000;

function rankedWords({ has }: Pick<Conjunct, 'has'>): number {
  return has
    .flatMap((expression) => expression.match(STRINGS) ?? [])
    .filter((string) => !string.startsWith('meta')).length;
}

/** How many hits are ranked: the fewer, the more words each is looked through for. */
function rankedHits(has: readonly string[], most: number): number {
  const stars = has.reduce((sum, expression) => sum + starsIn(expression), 0);
  const words = rankedWords({ has }) + STAR_WEIGHT * stars;
  return Math.ceil(most / Math.max(1, words / FEW_WORDS));
}

/** Up to here words cost about the same, since a hit itself has a cost. */
const FEW_WORDS = 3;
/** Words that one with a star counts for besides. */
const STAR_WEIGHT = 3;

/** Words and phrases in an expression of ours; those of the meta column, which has no weight, begin with its name. */
const STRINGS = /(?:- )?(?:meta : )?"[^"]*"/g;

/**
 * The lowest bm25 first, and the newest of equal ones. What several alternatives find is ranked together, by the words
 * of all of them: as it is by those of one expression.
 *
 * @throws `search-too-complex`
 */
function byRelevance(
  connection: Connection,
  drives: readonly Drive[],
  limit: number,
  asOf: AsOf,
): number[] {
  const has = [...new Set(drives.flatMap(({ conjunct }) => conjunct.has))].filter(
    (expression) => rankedWords({ has: [expression] }) > 0,
  );
  if (rankedWords({ has }) > RANKED_LIMIT)
    throw searchError('search-too-complex', { limit: RANKED_LIMIT, of: 'ranked' });
  const [only] = drives;
  const most = rankedHits(has, drives.length > 1 ? RANKED_AMONG : RANKED_HITS);
  if (only !== undefined && drives.length === 1 && has.length > 0) {
    const { sql, params } = ranked(only.conjunct, only.driver, limit, most, asOf);
    return inRank(connection.text<RankRow>(sql, params));
  }
  const newest = firstOf(
    inOrder(connection, drives, 'newest', asOf),
    has.length > 0 ? most : limit,
  );
  if (has.length === 0) return newest;
  const { sql, params } = rankedAmong(`(${has.join(' OR ')})`, newest, limit);
  const best = inRank(connection.text<RankRow>(sql, params));
  // Those that have none of the words come last, and have a place only where all others are on the page.
  return best.length < limit ? [...new Set([...best, ...newest])].slice(0, limit) : best;
}

interface RankRow {
  readonly docid: number;
  readonly rank: number;
}

function inRank(rows: Iterable<RankRow>): number[] {
  return [...rows].sort((a, b) => a.rank - b.rank || b.docid - a.docid).map(({ docid }) => docid);
}

function firstOf(docids: Iterable<number>, most: number): number[] {
  const first: number[] = [];
  for (const docid of docids) {
    if (first.length >= most) break;
    first.push(docid);
  }
  return first;
}
