import type { MessageId } from '../../mail/words.ts';
import type { SearchNode } from '../../search/ast.ts';
import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { everNamed, namesWithin } from '../folder-names.ts';
import { commitAt } from '../moments.ts';
import type { PlaceQueries } from '../places.ts';
import { query } from '../query.ts';
import { idsWithin, type Scope } from '../scope.ts';
import { threadNaming, threadNamingWithin, threadOf, threadWithin } from '../threads.ts';
import type { View } from './conditions.ts';
import { chooseDriver, type Drive, isSparse } from './driver.ts';
import { alternatives, type Members } from './formula.ts';
import { hitReader, type SearchHit } from './hit.ts';
import { byRelevance } from './ranking.ts';
import { type Names, resolve, type UnknownName } from './resolve.ts';
import { SetSearch } from './sets.ts';
import { counted, type Direction, type Sql, walks } from './sql.ts';
import { walkDrives } from './walk.ts';

export interface SearchRequest {
  /** See `search/parse.ts`. */
  readonly node: SearchNode;
  readonly limit: number;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  /** Searches what the archive had observed at this time, milliseconds since the epoch. */
  readonly asOf?: number | undefined;
  /** Searches these mailboxes as if there were no others; all where it is not given. */
  readonly scope?: Scope | undefined;
  /** Hosts of the configured accounts by their names in lower case, for `account:`. */
  readonly accounts?: ReadonlyMap<string, string>;
  /** Continues after the hit with this docid; not with relevance, whose order has no such position. */
  readonly after?: number | undefined;
}

export interface SearchResult {
  readonly hits: readonly SearchHit[];
  /** Names in the query that nothing has. */
  readonly unknown: readonly UnknownName[];
}

/** What counting, or finding all there is, needs to know. */
export type CountRequest = Pick<SearchRequest, 'node' | 'asOf' | 'accounts' | 'scope'>;

/** How a search is run, for `--explain`. */
export interface SearchPlan {
  readonly drives: readonly { readonly driver: string; readonly sql: readonly string[] }[];
  readonly unknown: readonly UnknownName[];
}

/** What prefixes of ids stand for. */
export type IdLookup = (prefix: string) => readonly number[];

/** How many messages a query finds; at least so many where counting was given up. */
export interface HitCount {
  readonly count: number;
  readonly complete: boolean;
}

/** Searches of everything ever seen; each may throw `search-too-complex`. */
export interface SearchQueries {
  /** Finds messages, in one read transaction. */
  search(request: SearchRequest): SearchResult;
  /** How many messages a query finds in all. */
  countHits(request: CountRequest): number;
  /**
   * Counts what a query finds until `mayContinue` says no. It is asked after some ten thousand messages, or after each
   * hit where few messages can be hits.
   */
  countHitsWhile(request: CountRequest, mayContinue: () => boolean): HitCount;
  /** The docids of all messages that a query finds, newest first. Reads as the caller takes them. */
  foundDocids(request: CountRequest): IterableIterator<number>;
  /** The ids of the messages that a search finds, in its order and up to its limit, read as they are taken. */
  foundIds(request: SearchRequest): IterableIterator<MessageId>;
  /** How a search would be run. */
  explainSearch(request: SearchRequest): SearchPlan;
}

const ID = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select('id').where('docid', '=', p.docid),
);

export function searchQueries(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  ids: IdLookup,
): SearchQueries {
  const countHitsWhile: SearchQueries['countHitsWhile'] = (request, mayContinue) =>
    connection.snapshot(() => {
      const { drives, view } = prepared(connection, ids, request);
      const [only] = drives;
      if (only === undefined) return { count: 0, complete: true };
      const byIndex = drives.length === 1 ? counted(only.conjunct, view) : undefined;
      if (byIndex !== undefined)
        for (const { n } of connection.text<{ n: number }>(byIndex.sql, byIndex.params))
          return { count: n, complete: true };
      if (!isSparse(connection, drives, 'newest'))
        return setsOf(connection, drives, view).countWhile(mayContinue);
      let count = 0;
      for (const _ of walkDrives(connection, drives, 'newest', view)) {
        count += 1;
        if (!mayContinue()) return { count, complete: false };
      }
      return { count, complete: true };
    });
  return {
    search: (request) =>
      connection.snapshot(() => {
        const { drives, unknown, view, names } = prepared(connection, ids, request);
        const read = hitReader(connection, places, names, request.node, view);
        const hits: SearchHit[] = [];
        for (const docid of docids(connection, drives, request, view)) {
          if (hits.length >= request.limit) break;
          const hit = read(docid);
          if (hit !== undefined) hits.push(hit);
        }
        return { hits, unknown };
      }),
    countHits: (request) => countHitsWhile(request, () => true).count,
    countHitsWhile,
    *foundDocids(request) {
      const { drives, view } = prepared(connection, ids, request);
      yield* walkDrives(connection, drives, 'newest', view);
    },
    *foundIds(request) {
      const { drives, view } = prepared(connection, ids, request);
      let left = request.limit;
      for (const docid of docids(connection, drives, request, view)) {
        if (left <= 0) return;
        const row = connection.get(ID, { docid });
        if (row === undefined) continue;
        left -= 1;
        yield row.id.toString('hex');
      }
    },
    explainSearch(request) {
      const { drives, unknown, view } = prepared(connection, ids, request);
      const direction = request.sort === 'oldest' ? 'oldest' : 'newest';
      if (!isWalked(connection, drives, direction)) {
        const sql = setsOf(connection, drives, view).lists().map(shown);
        return { unknown, drives: [{ driver: 'sets', sql }] };
      }
      return {
        unknown,
        drives: drives.map(({ conjunct, driver, stretch }) => ({
          driver: driver.by === 'both' ? `match and ${driver.rare.by}` : driver.by,
          sql: walks({ ...conjunct, ...stretch }, driver, direction, view).map(shown),
        })),
      };
    },
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
  const { scope = null } = request;
  const view: View = { asOf, scope };
  const known = archiveNames(connection, asOf);
  const folders = scope === null ? known.folders : namesWithin(known.folders, scope);
  const unknown: UnknownName[] = [];
  const names: Names = {
    folders,
    flagSets: known.flagSets,
    ever: () => everNamed(connection, scope),
    ...(scope === null ? lookups(connection, ids) : lookupsWithin(connection, scope)),
    accounts: accountsOf(request.accounts ?? new Map(), folders, scope),
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
      chooseDriver(connection, conjunct, view, sort === 'oldest' ? 'oldest' : 'newest'),
    )
    .filter(({ conjunct }) => conjunct.low < conjunct.high);
  return { view, unknown, drives, names: folders };
}

type Lookups = Pick<Names, 'byIdPrefix' | 'threadOf' | 'threadNaming'>;

function lookups(connection: Connection, ids: IdLookup): Lookups {
  const members = (thread: number | undefined): Members | undefined =>
    thread === undefined ? undefined : { column: 'thread', values: [thread] };
  return {
    byIdPrefix: ids,
    threadOf: (docid) => members(threadOf(connection, docid)),
    threadNaming: (messageId) => members(threadNaming(connection, messageId)),
  };
}

/** Messages that one prefix of an id may stand for, as without a scope. */
const CANDIDATES = 10;

function lookupsWithin(connection: Connection, scope: Scope): Lookups {
  const members = (values: readonly number[]): Members | undefined =>
    values.length === 0 ? undefined : { column: 'docid', values };
  return {
    byIdPrefix: (prefix) =>
      idsWithin(connection, scope, prefix, CANDIDATES).map(({ docid }) => docid),
    threadOf: (docid) => members(threadWithin(connection, scope, docid)),
    threadNaming: (messageId) => members(threadNamingWithin(connection, scope, messageId)),
  };
}

/** The accounts whose mailboxes are in a scope. */
function accountsOf(
  accounts: Names['accounts'],
  folders: Names['folders'],
  scope: Scope | null,
): Names['accounts'] {
  if (scope === null) return accounts;
  const hosts = new Set([...folders.values()].map(({ host }) => host.toLowerCase()));
  return new Map([...accounts].filter(([, host]) => hosts.has(host)));
}

function docids(
  connection: Connection,
  drives: readonly Drive[],
  { sort, limit }: SearchRequest,
  view: View,
): Iterable<number> {
  return sort === 'relevance'
    ? byRelevance(connection, drives, limit, view, () =>
        inOrder(connection, drives, 'newest', view),
      )
    : inOrder(connection, drives, sort, view);
}

function inOrder(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  view: View,
): Iterable<number> {
  return isWalked(connection, drives, direction)
    ? walkDrives(connection, drives, direction, view)
    : setsOf(connection, drives, view).walk(direction);
}

/**
 * One alternative is walked. Several are walked side by side where they have few candidates; else each would look for
 * its next hit, however far that is, and ask about the same messages again.
 */
function isWalked(connection: Connection, drives: readonly Drive[], direction: Direction): boolean {
  return drives.length < 2 || isSparse(connection, drives, direction);
}

function setsOf(connection: Connection, drives: readonly Drive[], view: View): SetSearch {
  return new SetSearch(
    connection,
    drives.map(({ conjunct }) => conjunct),
    view,
  );
}
