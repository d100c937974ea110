import type { MessageId } from '../core/types.ts';
import type { HitPlace, SearchLine } from '../mail/identity.ts';
import { ftsString, UnpackedTexts } from '../mail/normalise.ts';
import { attachmentTexts } from './attachment-texts.ts';
import type { Connection } from './database.ts';
import { searchError } from './errors.ts';
import { archiveNames, everNamed, type FolderName, namesWithin } from './folders.ts';
import { indexQueries } from './indexing.ts';
import type { PlaceQueries } from './list.ts';
import { attachmentsOf, readable, senderOf } from './messages.ts';
import { type Builder, query, type Row } from './query.ts';
import type { SearchNode, TextNode } from './query-ast.ts';
import {
  alternatives,
  type Conjunct,
  type Members,
  type Names,
  ObservedCommits,
  type Predicate,
  resolve,
  starsIn,
  type UnknownName,
  type View,
  viewOf,
} from './resolve-query.ts';
import { SetSearch, sumsFilter, sumUnread, unreadCount } from './search-sets.ts';
import {
  chooseAccessPath,
  counted,
  type Direction,
  type Drive,
  isSparse,
  ranked,
  rankedAmong,
  type Sql,
  Watch,
  walkDrives,
  walks,
} from './search-sql.ts';
import { beginning, type Snippet, snippet, soughtWords } from './snippets.ts';
import { foldersOf, idsWithin, isoTime, type Scope } from './sql.ts';
import { receivedInAll } from './sums.ts';
import { threadNaming, threadNamingWithin, threadOf, threadWithin } from './threads.ts';

const placesOf = (db: Builder, docid: number) =>
  db
    .selectFrom('places as p')
    .innerJoin('commits as seen', 'seen.number', 'p.first_commit')
    .leftJoin('commits as closing', 'closing.number', 'p.to_commit')
    .select(['p.id', 'p.folder_id', 'p.uid', 'p.flag_set', 'p.date', 'p.from_commit'])
    .select(['p.to_commit', 'seen.time as first_seen', 'closing.time as ended_at'])
    .where('p.docid', '=', docid);
const spansOf = (db: Builder, docid: number) =>
  db
    .selectFrom('spans as s')
    .innerJoin('places as p', 'p.id', 's.place_id')
    .innerJoin('commits as seen', 'seen.number', 'p.first_commit')
    .innerJoin('commits as closing', 'closing.number', 's.to_commit')
    .select(['p.id', 's.folder_id', 'p.uid', 's.flag_set', 's.date', 's.from_commit'])
    .select(['s.to_commit', 'seen.time as first_seen', 'closing.time as ended_at'])
    .where('s.docid', '=', docid);
const PLACES = query<{ docid: number }>()((db, p) => placesOf(db, p.docid));
const SPANS = query<{ docid: number }>()((db, p) => spansOf(db, p.docid));
/** The same in some mailboxes, a JSON array of their numbers. */
const PLACES_WITHIN = query<{ docid: number; mailboxes: string }>()((db, p) =>
  placesOf(db, p.docid).where('p.folder_id', 'in', foldersOf(p.mailboxes)),
);
const SPANS_WITHIN = query<{ docid: number; mailboxes: string }>()((db, p) =>
  spansOf(db, p.docid).where('s.folder_id', 'in', foldersOf(p.mailboxes)),
);

/** The places of a message that a view may show, and their earlier intervals. */
function intervalsOf(connection: Connection, docid: number, { scope }: View) {
  if (scope === null)
    return {
      places: connection.all(PLACES, { docid }),
      spans: () => connection.all(SPANS, { docid }),
    };
  const within = { docid, mailboxes: JSON.stringify(scope.mailboxes) };
  return {
    places: connection.all(PLACES_WITHIN, within),
    spans: () => connection.all(SPANS_WITHIN, within),
  };
}

interface PlaceRow
  extends Pick<
    Row<'places'>,
    'id' | 'folder_id' | 'uid' | 'flag_set' | 'date' | 'from_commit' | 'to_commit'
  > {
  readonly first_seen: number;
  readonly ended_at: number | null;
}

/** Returns the places of a message that a view shows: current ones first, in the order in which they came. */
export function shownPlaces(connection: Connection, docid: number, view: View): PlaceRow[] {
  return placesInOrder(
    view.asOf === null
      ? intervalsOf(connection, docid, view).places
      : placesAt(connection, docid, view.asOf, view),
  );
}

/** Current places in the order in which they came, then ended ones, the last to end first. */
function placesInOrder(rows: readonly PlaceRow[]): PlaceRow[] {
  return rows.toSorted(
    (a, b) => (b.ended_at ?? Infinity) - (a.ended_at ?? Infinity) || a.id - b.id,
  );
}

/** Every place as it was: its interval at the commit, or the last one before. */
function placesAt(connection: Connection, docid: number, commit: number, view: View): PlaceRow[] {
  const { places, spans } = intervalsOf(connection, docid, view);
  const intervals = [...places, ...spans()].filter((row) => row.from_commit <= commit);
  const last = new Map<number, PlaceRow>();
  for (const row of intervals) {
    const known = last.get(row.id);
    if (known === undefined || row.from_commit >= known.from_commit) last.set(row.id, row);
  }
  return [...last.values()].map((row) =>
    row.to_commit === null || row.to_commit > commit ? { ...row, ended_at: null } : row,
  );
}

/** An attachment of a hit in whose text something sought stands. */
interface MatchedAttachment {
  readonly number: number;
  readonly filename: string | null;
  /** A piece of its text around what matched: on one line, and not made safe for terminals. */
  readonly snippet: string;
  /** The matches within `snippet`. */
  readonly matches: Snippet['matches'];
}

/** Attachments of one message whose texts are unpacked, the first ones; each may be half a million characters. */
const UNPACKED = 16;

const HAS_ANY = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('number')
    .where('docid', '=', p.docid)
    .where('text_id', 'is not', null)
    .limit((eb) => eb.lit(1)),
);
const IN_ATTACHMENTS =
  'SELECT rowid AS docid FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = ?';

/**
 * Finds the attachments of a message that show what a query looks for. Texts are unpacked only where the index
 * says that something sought stands in one of them.
 */
function attachmentMatcher(
  connection: Connection,
  node: SearchNode,
): (docid: number) => MatchedAttachment[] {
  // `body:` and other fields are not looked for in attachments.
  const words = soughtWords(node, ['any']);
  const strings = soughtTexts(node).flatMap(({ text, prefix }) => ftsString(text, prefix) ?? []);
  if (words.length === 0 || strings.length === 0) return () => [];
  const expression = `att_text : (${strings.join(' OR ')})`;
  const indexed = (docid: number): boolean => {
    if (connection.get(HAS_ANY, { docid }) === undefined) return false;
    return [...connection.text(IN_ATTACHMENTS, [expression, BigInt(docid)])].length > 0;
  };
  return (docid) => {
    if (!indexed(docid)) return [];
    const found: MatchedAttachment[] = [];
    let unpacked = 0;
    for (const { number, filename, text } of attachmentTexts(connection, docid)) {
      unpacked += 1;
      if (unpacked > UNPACKED) break;
      const shown = snippet(text, words);
      if (shown !== undefined)
        found.push({ number, filename, snippet: shown.text, matches: shown.matches });
    }
    return found;
  };
}

/** The words and phrases that are looked for everywhere, and not excluded. */
function soughtTexts(node: SearchNode): TextNode[] {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.flatMap(soughtTexts);
    case 'near':
      return node.terms.filter(({ field }) => field === 'any');
    case 'text':
      return node.field === 'any' ? [node] : [];
    default:
      return [];
  }
}

export interface SearchHit {
  readonly docid: number;
  readonly line: SearchLine;
  /** The matches within `line.snippet`, and within those of `line.matchedAttachments`. */
  readonly matches: Snippet['matches'];
  readonly attachmentMatches: readonly Snippet['matches'][];
}

/** With its packed text: one statement costs less than two. */
const MESSAGE = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages as m')
    .leftJoin('texts as t', 't.docid', 'm.docid')
    .select(['m.id', 'm.size', 'm.date', 'm.subject', 'm.sender_name', 'm.sender_address'])
    .select(['m.message_id', 'm.extractor', 't.text'])
    .where('m.docid', '=', p.docid),
);

/** Reads hits by docid for one search. A docid that went meanwhile gives undefined. */
function hitReader(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  names: ReadonlyMap<number, FolderName>,
  node: SearchNode,
  view: View,
): (docid: number) => SearchHit | undefined {
  const texts = unpackedTexts(connection);
  const words = soughtWords(node);
  const inAttachments = attachmentMatcher(connection, node);
  // Many messages came with one commit, and to put a time in words takes longer than to read one.
  const times = new Map<number, string | null>();
  const timeOf = (time: number): string | null => {
    const known = times.get(time) ?? isoTime(time);
    times.set(time, known);
    return known;
  };
  return (docid) => {
    const row = connection.get(MESSAGE, { docid });
    if (row === undefined) return undefined;
    const hitPlaces = shownPlaces(connection, docid, view).map((place): HitPlace => {
      const name = names.get(place.folder_id);
      return {
        mailbox: name?.address ?? '',
        folder: name?.path ?? '',
        uid: place.uid,
        flags: places.flags(place.flag_set),
        date: isoTime(place.date ?? row.date),
        firstSeen: timeOf(place.first_seen),
        endedAt: isoTime(place.ended_at),
      };
    });
    const [first] = hitPlaces;
    if (first === undefined) return undefined;
    const text = texts.of(docid, row.text);
    const found = snippet(text, words) ?? { text: beginning(text), matches: [] };
    const attached = inAttachments(docid);
    const listed = attachmentsOf(connection, docid);
    const line: SearchLine = {
      id: row.id.toString('hex'),
      ...first,
      size: row.size,
      subject: readable(row.subject),
      from: senderOf(row),
      messageId: row.message_id,
      places: hitPlaces,
      snippet: found.text,
      // Nobody knows yet whether one that waits has any.
      attachments: row.extractor <= 0 && listed.length === 0 ? null : listed,
      matchedAttachments: attached.map(({ matches: _, ...attachment }) => attachment),
    };
    const attachmentMatches = attached.map(({ matches }) => matches);
    return { docid, line, matches: found.matches, attachmentMatches };
  };
}

const UNPACKED_TEXTS = new WeakMap<Connection, UnpackedTexts>();

function unpackedTexts(connection: Connection): UnpackedTexts {
  let known = UNPACKED_TEXTS.get(connection);
  if (known === undefined) {
    known = new UnpackedTexts(connection.file);
    UNPACKED_TEXTS.set(connection, known);
  }
  return known;
}

/** The most words to rank by: each costs a visit to all its occurrences in every hit. */
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
 * @param inOrder everything that is found, the newest first
 * @returns docids
 * @throws `search-too-complex`
 */
function byRelevance(
  connection: Connection,
  drives: readonly Drive[],
  limit: number,
  view: View,
  inOrder: () => Iterable<number>,
): number[] {
  const has = [...new Set(drives.flatMap(({ conjunct }) => conjunct.has))].filter(
    (expression) => rankedWords({ has: [expression] }) > 0,
  );
  if (rankedWords({ has }) > RANKED_LIMIT)
    throw searchError('search-too-complex', { limit: RANKED_LIMIT, of: 'ranked' });
  const [only] = drives;
  const most = rankedHits(has, drives.length > 1 ? RANKED_AMONG : RANKED_HITS);
  if (only !== undefined && drives.length === 1 && has.length > 0) {
    const { sql, params } = ranked(only.conjunct, only.driver, limit, most, view);
    return inRank(connection.text<RankRow>(sql, params));
  }
  const newest = firstOf(inOrder(), has.length > 0 ? most : limit);
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

/**
 * Counts what a query finds by the sums that the fold keeps: everything, folders, mailboxes, and what is deleted, each in
 * the time of a look at every set of places.
 *
 * @param isIndexed whether every message is in the full-text index, by which mailboxes are found
 * @returns undefined for any other query
 */
function countBySums(
  connection: Connection,
  conjuncts: readonly Conjunct[],
  view: View,
  isIndexed: () => boolean,
): number | undefined {
  if (view.scope !== null) return undefined;
  const filter = sumsFilter(conjuncts, view, isIndexed);
  // The sums are of all days.
  if (filter === undefined || filter.low > 0 || filter.high < Number.MAX_SAFE_INTEGER)
    return undefined;
  return receivedInAll(connection).all(filter.fits).messages;
}

export interface SearchRequest {
  /** See `parse-query.ts`. */
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
interface PartRequest extends CountRequest {
  readonly after?: number | undefined;
  readonly sort?: SearchRequest['sort'] | undefined;
}

/** The same among some messages. */
interface WalkRequest extends PartRequest {
  /** Indexed ones: some dozens at most. */
  readonly among?: readonly number[] | undefined;
}

/** How a search is run, for `--explain`. */
export interface SearchPlan {
  readonly drives: readonly { readonly driver: string; readonly sql: readonly string[] }[];
  readonly unknown: readonly UnknownName[];
}

/** What prefixes of ids stand for. */
type IdLookup = (prefix: string) => readonly number[];

/** How many messages a query finds; at least so many where counting was given up. */
export interface HitCount {
  readonly count: number;
  readonly complete: boolean;
}

const ID = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select('id').where('docid', '=', p.docid),
);

export function searchQueries(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  ids: IdLookup,
) {
  const isIndexed = (): boolean => indexQueries(connection).pendingCount() === 0;
  const countHitsWhile = (request: PartRequest, mayContinue: () => boolean): HitCount =>
    connection.snapshot(() => {
      const { drives, view, bounded } = prepared(connection, ids, request);
      const [only] = drives;
      if (only === undefined) return { count: 0, complete: true };
      const unread = unreadCount(connection, bounded, view, isIndexed);
      if (unread !== undefined) return { count: unread, complete: true };
      const bySums = countBySums(connection, bounded, view, isIndexed);
      if (bySums !== undefined) return { count: bySums, complete: true };
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
    /** Finds messages, in one read transaction. */
    search: (request: SearchRequest): SearchResult =>
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
    /** How many messages a query finds in all. */
    countHits: (request: CountRequest) => countHitsWhile(request, () => true).count,
    /**
     * Counts what a query finds until `mayContinue` says no. It is asked after some ten thousand messages, or after each
     * hit where few messages can be hits.
     */
    countHitsWhile,
    /**
     * Makes the sums by which unread messages in folders and mailboxes are counted at once, until the next commit. Where
     * `mayContinue` ends that, the next call continues; returns whether the sums are complete.
     */
    sumUnread: (mayContinue: () => boolean) => sumUnread(connection, mayContinue),
    /** The docids of all messages that a query finds, newest first unless asked otherwise. Reads as the caller takes them. */
    *foundDocids(request: PartRequest, mayContinue?: () => boolean): IterableIterator<number> {
      const { drives, view } = prepared(connection, ids, request);
      const direction = request.sort === 'oldest' ? 'oldest' : 'newest';
      yield* walkDrives(connection, drives, direction, view, new Watch(mayContinue));
    },
    /**
     * The docids that a query finds, the newest first, in the way that `search` finds its hits: each is had soon, not all of
     * them together. Returns the docid to continue after where `mayContinue` ended the walk, and null where it did not.
     */
    *walkFound(
      request: Omit<WalkRequest, 'sort'>,
      mayContinue?: () => boolean,
    ): Generator<number, number | null, undefined> {
      const { drives, view } = prepared(connection, ids, request);
      const watch = new Watch(mayContinue);
      yield* inOrder(connection, drives, 'newest', view, watch);
      return watch.stoppedAt;
    },
    /** Which sets of places a query finds, where sums over them answer it; undefined where messages must be asked. */
    sumsFilter(request: CountRequest) {
      const { drives, view } = prepared(connection, ids, request);
      return sumsFilter(
        drives.map(({ conjunct }) => conjunct),
        view,
        isIndexed,
      );
    },
    /** The ids of the messages that a search finds, in its order and up to its limit, read as they are taken. */
    *foundIds(request: SearchRequest): IterableIterator<MessageId> {
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
    /** How a search would be run. */
    explainSearch(request: SearchRequest): SearchPlan {
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

/** Searches of everything ever seen; each may throw `search-too-complex`. */
export type SearchQueries = ReturnType<typeof searchQueries>;

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
  const predicate: Predicate =
    among === undefined
      ? found
      : {
          op: 'and',
          parts: [found, { op: 'members', members: { column: 'docid', values: among } }],
        };
  const bounded = alternatives(predicate).map((conjunct) => {
    if (after === undefined || sort === 'relevance') return conjunct;
    return sort === 'oldest'
      ? { ...conjunct, low: Math.max(conjunct.low, after + 1) }
      : { ...conjunct, high: Math.min(conjunct.high, after) };
  });
  const drives = bounded
    .filter(({ low, high }) => low < high)
    .map((conjunct) =>
      chooseAccessPath(connection, conjunct, view, sort === 'oldest' ? 'oldest' : 'newest'),
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
