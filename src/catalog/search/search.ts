import type { MessageId } from '../../mail/words.ts';
import type { SearchNode } from '../../search/ast.ts';
import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { everNamed, namesWithin } from '../folder-names.ts';
import { indexQueries } from '../indexing.ts';
import type { PlaceQueries } from '../places.ts';
import { query } from '../query.ts';
import { idsWithin, type Scope } from '../scope.ts';
import { threadNaming, threadNamingWithin, threadOf, threadWithin } from '../threads.ts';
import { type View, viewOf } from './conditions.ts';
import { chooseDriver, type Drive, isSparse } from './driver.ts';
import { alternatives, type Formula, type Members } from './formula.ts';
import { hitReader, type SearchHit } from './hit.ts';
import { ObservedCommits } from './observed.ts';
import { byRelevance } from './ranking.ts';
import { type Names, resolve, type UnknownName } from './resolve.ts';
import { countBySets } from './set-totals.ts';
import { SetSearch } from './sets.ts';
import { counted, type Direction, type Sql, walks } from './sql.ts';
import { type SumsFilter, sumsFilter } from './sums-filter.ts';
import { sumUnread, unreadCount } from './unread-sums.ts';
import { Watch, walkDrives } from './walk.ts';

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
  /** Ends the search where it says no; it is asked after some thousand messages. Not with relevance. */
  readonly mayContinue?: (() => boolean) | undefined;
}

export interface SearchResult {
  readonly hits: readonly SearchHit[];
  /** Names in the query that nothing has. */
  readonly unknown: readonly UnknownName[];
  /** Where `mayContinue` ended the search: the docid to continue after. Null where it did not. */
  readonly stoppedAt: number | null;
}

/** What counting, or finding all there is, needs to know. */
export type CountRequest = Pick<SearchRequest, 'node' | 'asOf' | 'accounts' | 'scope'>;

/** The same of what comes after a docid: of older messages, or with `oldest` of newer ones. */
export interface PartRequest extends CountRequest {
  readonly after?: number | undefined;
  readonly sort?: SearchRequest['sort'] | undefined;
}

/** The same among some messages. */
export interface WalkRequest extends PartRequest {
  /** Indexed ones: some dozens at most. */
  readonly among?: readonly number[] | undefined;
}

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
  countHitsWhile(request: PartRequest, mayContinue: () => boolean): HitCount;
  /**
   * Makes the sums by which unread messages in folders and mailboxes are counted at once, until the next commit. Where
   * `mayContinue` ends that, the next call continues; returns whether the sums are complete.
   */
  sumUnread(mayContinue: () => boolean): boolean;
  /** The docids of all messages that a query finds, newest first unless asked otherwise. Reads as the caller takes them. */
  foundDocids(request: PartRequest, mayContinue?: () => boolean): IterableIterator<number>;
  /**
   * The docids that a query finds, the newest first, in the way that `search` finds its hits: each is had soon, not all of
   * them together. Returns the docid to continue after where `mayContinue` ended the walk, and null where it did not.
   */
  walkFound(
    request: Omit<WalkRequest, 'sort'>,
    mayContinue?: () => boolean,
  ): Generator<number, number | null, undefined>;
  /** Which sets of places a query finds, where sums over them answer it; undefined where messages must be asked. */
  sumsFilter(request: CountRequest): SumsFilter | undefined;
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
  const isIndexed = (): boolean => indexQueries(connection).pendingCount() === 0;
  const countHitsWhile: SearchQueries['countHitsWhile'] = (request, mayContinue) =>
    connection.snapshot(() => {
      const { drives, view, bounded } = prepared(connection, ids, request);
      const [only] = drives;
      if (only === undefined) return { count: 0, complete: true };
      const unread = unreadCount(connection, bounded, view, isIndexed);
      if (unread !== undefined) return { count: unread, complete: true };
      const bySets = countBySets(connection, bounded, view, isIndexed);
      if (bySets !== undefined) return { count: bySets, complete: true };
      const byIndex = drives.length === 1 ? counted(only.conjunct, view) : undefined;
      if (byIndex !== undefined)
        for (const { n } of connection.text<{ n: number }>(byIndex.sql, byIndex.params))
          return { count: n, complete: true };
      const direction = request.sort === 'oldest' ? 'oldest' : 'newest';
      if (!isSparse(connection, drives, direction))
        return setsOf(connection, drives, view).countWhile(mayContinue);
      let count = 0;
      const watch = new Watch(mayContinue);
      for (const _ of walkDrives(connection, drives, direction, view, watch)) {
        count += 1;
        if (!mayContinue()) return { count, complete: false };
      }
      return { count, complete: watch.stoppedAt === null };
    });
  return {
    search: (request) =>
      connection.snapshot(() => {
        const { drives, unknown, view, names } = prepared(connection, ids, request);
        const read = hitReader(connection, places, names, request.node, view);
        const hits: SearchHit[] = [];
        const watch = new Watch(request.mayContinue);
        for (const docid of docids(connection, drives, request, view, watch)) {
          if (hits.length >= request.limit) break;
          const hit = read(docid);
          if (hit !== undefined) hits.push(hit);
        }
        return { hits, unknown, stoppedAt: hits.length >= request.limit ? null : watch.stoppedAt };
      }),
    countHits: (request) => countHitsWhile(request, () => true).count,
    countHitsWhile,
    sumUnread: (mayContinue) => sumUnread(connection, mayContinue),
    *foundDocids(request, mayContinue) {
      const { drives, view } = prepared(connection, ids, request);
      const direction = request.sort === 'oldest' ? 'oldest' : 'newest';
      yield* walkDrives(connection, drives, direction, view, new Watch(mayContinue));
    },
    *walkFound(request, mayContinue) {
      const { drives, view } = prepared(connection, ids, request);
      const watch = new Watch(mayContinue);
      yield* inOrder(connection, drives, 'newest', view, watch);
      return watch.stoppedAt;
    },
    sumsFilter(request) {
      const { drives, view } = prepared(connection, ids, request);
      return sumsFilter(
        drives.map(({ conjunct }) => conjunct),
        view,
        isIndexed,
      );
    },
    *foundIds(request) {
      const { drives, view } = prepared(connection, ids, request);
      let left = request.limit;
      for (const docid of docids(connection, drives, request, view, new Watch())) {
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

function prepared(connection: Connection, ids: IdLookup, request: WalkRequest) {
  const view = viewOf(connection, request);
  const { scope } = view;
  const known = archiveNames(connection, view.asOf);
  const folders = scope === null ? known.folders : namesWithin(known.folders, scope);
  const unknown: UnknownName[] = [];
  const names: Names = {
    folders,
    flagSets: known.flagSets,
    ever: () => everNamed(connection, scope),
    ...(scope === null ? lookups(connection, ids) : lookupsWithin(connection, scope)),
    observed: new ObservedCommits(connection, view),
    accounts: accountsOf(request.accounts ?? new Map(), folders, scope),
  };
  const found = resolve(request.node, names, (name) => unknown.push(name));
  const { after, sort, among } = request;
  const formula: Formula =
    among === undefined
      ? found
      : {
          op: 'and',
          parts: [found, { op: 'members', members: { column: 'docid', values: among } }],
        };
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
  return { view, unknown, bounded, drives, names: folders };
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
  watch: Watch,
): Iterable<number> {
  return sort === 'relevance'
    ? byRelevance(connection, drives, limit, view, () =>
        inOrder(connection, drives, 'newest', view, new Watch()),
      )
    : inOrder(connection, drives, sort, view, watch);
}

function inOrder(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  view: View,
  watch: Watch,
): Iterable<number> {
  return isWalked(connection, drives, direction)
    ? walkDrives(connection, drives, direction, view, watch)
    : setsOf(connection, drives, view).walk(direction, watch);
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
