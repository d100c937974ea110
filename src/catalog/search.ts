import type { MessageId } from '../core/types.ts';
import { docidBaseOf } from '../mail/docid.ts';
import type { HitPlace, SearchLine } from '../mail/identity.ts';
import { ftsString, UnpackedTexts } from '../mail/normalise.ts';
import { attachmentTexts } from './attachment-texts.ts';
import type { Connection } from './database.ts';
import { searchError } from './errors.ts';
import { allNames, archiveNames, type FolderName } from './folders.ts';
import type { PlaceQueries } from './list.ts';
import { displaySender, listAttachments, readableText } from './messages.ts';
import { type Row, selectBy, sqlQuery } from './query.ts';
import type { SearchNode, TextNode } from './query-ast.ts';
import {
  alternatives,
  type Conjunct,
  countPrefixes,
  createView,
  type Names,
  ObservedCommits,
  type Predicate,
  resolve,
  testOf,
  type UnknownName,
  type View,
} from './resolve-query.ts';
import { countBySums, SetSearch, type SumsFilter, sumsFilter, sumUnread } from './search-sets.ts';
import {
  chooseAccessPath,
  countStatement,
  type Direction,
  isSparse,
  type PlannedWalk,
  rankDocids,
  rankNewest,
  type Sql,
  TimeLimit,
  walkPaths,
  walkStatements,
} from './search-sql.ts';
import { openingText, type Snippet, snippet, soughtPhrases } from './snippets.ts';
import { respell } from './spelling.ts';
import { type Envelope, isOwnFolder, isoTime } from './sql.ts';
import { threadNaming, threadOf } from './threads.ts';

const PLACES_OF = `SELECT p.id, p.folder_id, p.uid, p.flag_set, p.date, p.from_commit, p.to_commit,
    seen.time AS first_seen, closing.time AS ended_at
  FROM places p JOIN commits seen ON seen.number = p.first_commit
    LEFT JOIN commits closing ON closing.number = p.to_commit
  WHERE p.docid = :docid`;
const SPANS_OF = `SELECT p.id, s.folder_id, p.uid, s.flag_set, s.date, s.from_commit, s.to_commit,
    seen.time AS first_seen, closing.time AS ended_at
  FROM spans s JOIN places p ON p.id = s.place_id JOIN commits seen ON seen.number = p.first_commit
    JOIN commits closing ON closing.number = s.to_commit
  WHERE s.docid = +?`;
const PLACES = sqlQuery<{ docid: number }, PlaceRow>(PLACES_OF);

function placesOf(connection: Connection, docid: number): Iterable<PlaceRow> {
  const { scope } = connection;
  // Nearly all readers see everything, for which a prepared query is faster.
  if (scope === null) return connection.all(PLACES, { docid });
  const condition = isOwnFolder('p.folder_id', scope);
  return connection.text<PlaceRow>(`${PLACES_OF.replace(':docid', '+?')} AND ${condition}`, [
    docid,
  ]);
}

interface PlaceRow
  extends Pick<
    Row<'places'>,
    'id' | 'folder_id' | 'uid' | 'flag_set' | 'date' | 'from_commit' | 'to_commit'
  > {
  readonly first_seen: number;
  readonly ended_at: number | null;
}

/** Returns a message's places in a view: current ones first, in order of arrival, then the most recently deleted. */
export function shownPlaces(connection: Connection, docid: number, view: View): PlaceRow[] {
  const rows =
    view.asOf === null ? placesOf(connection, docid) : placesAt(connection, docid, view.asOf);
  return [...rows].sort(
    (a, b) => (b.ended_at ?? Infinity) - (a.ended_at ?? Infinity) || a.id - b.id,
  );
}

/** Returns every place as of a commit, or its last state before that commit. */
function placesAt(connection: Connection, docid: number, commit: number): PlaceRow[] {
  const spans = connection.text<PlaceRow>(
    `${SPANS_OF} AND ${isOwnFolder('s.folder_id', connection.scope)}`,
    [docid],
  );
  const last = new Map<number, PlaceRow>();
  for (const row of [...placesOf(connection, docid), ...spans]) {
    const latest = last.get(row.id);
    if (row.from_commit > commit) continue;
    if (latest === undefined || row.from_commit >= latest.from_commit) last.set(row.id, row);
  }
  return [...last.values()].map((row) =>
    row.to_commit === null || row.to_commit > commit ? { ...row, ended_at: null } : row,
  );
}

interface MatchedAttachment {
  readonly number: number;
  readonly filename: string | null;
  /** The text around the match, on one line. Not escaped for terminals. */
  readonly snippet: string;
  readonly matches: Snippet['matches'];
}

/** Maximum number of attachment texts to unpack per message. Each can be half a million characters long. */
const UNPACKED = 16;

const HAS_ANY = selectBy('attachments', 'number', 'docid', 'AND text_id IS NOT NULL LIMIT 1');
const IN_ATTACHMENTS =
  'SELECT rowid AS docid FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = ?';

/** Returns a function that finds a message's matching attachments. It unpacks text only if the index finds a match. */
function attachmentMatcher(
  connection: Connection,
  node: SearchNode,
): (docid: number) => MatchedAttachment[] {
  // Field operators such as `body:` do not cover attachments.
  const words = soughtPhrases(node, ['any']);
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
    let count = 0;
    for (const { number, filename, text } of attachmentTexts(connection, docid)) {
      count += 1;
      if (count > UNPACKED) break;
      const excerpt = snippet(text, words);
      if (excerpt !== undefined)
        found.push({ number, filename, snippet: excerpt.text, matches: excerpt.matches });
    }
    return found;
  };
}

/** Returns the words and phrases that the query looks for in all fields. Skips excluded ones. */
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
  /** Positions in `line.snippet`. The next field holds those for `line.matchedAttachments`. */
  readonly matches: Snippet['matches'];
  readonly attachmentMatches: readonly Snippet['matches'][];
}

type MessageRow = Envelope &
  Pick<Row<'messages'>, 'id' | 'size' | 'extractor'> & { text: Buffer | null };
/** The packed text is included because one statement is cheaper than two. */
const MESSAGE = sqlQuery<{ docid: number }, MessageRow>(
  `SELECT m.id, m.size, m.date, m.subject, m.sender_name, m.sender_address, m.message_id,
     m.extractor, t.text
   FROM messages m LEFT JOIN texts t ON t.docid = m.docid WHERE m.docid = :docid`,
);

/** Returns a function that reads a hit, or undefined if the message has since been purged. */
function hitReader(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  names: ReadonlyMap<number, FolderName>,
  node: SearchNode,
  view: View,
): (docid: number) => SearchHit | undefined {
  const texts = unpackedTexts(connection);
  const words = soughtPhrases(node);
  const inAttachments = attachmentMatcher(connection, node);
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
        firstSeen: isoTime(place.first_seen),
        endedAt: isoTime(place.ended_at),
      };
    });
    const [first] = hitPlaces;
    if (first === undefined) return undefined;
    const text = texts.of(docid, row.text);
    const found = snippet(text, words) ?? { text: openingText(text), matches: [] };
    const attached = inAttachments(docid);
    const listed = listAttachments(connection, docid);
    const line: SearchLine = {
      id: row.id.toString('hex'),
      ...first,
      size: row.size,
      subject: readableText(row.subject),
      from: displaySender(row),
      messageId: row.message_id,
      places: hitPlaces,
      snippet: found.text,
      // Null if the message has not been indexed yet.
      attachments: row.extractor <= 0 && listed.length === 0 ? null : listed,
      matchedAttachments: attached.map(({ matches: _, ...attachment }) => attachment),
    };
    const attachmentMatches = attached.map(({ matches }) => matches);
    return { docid, line, matches: found.matches, attachmentMatches };
  };
}

const UNPACKED_TEXTS = new WeakMap<Connection['db'], UnpackedTexts>();

function unpackedTexts(connection: Connection): UnpackedTexts {
  let cache = UNPACKED_TEXTS.get(connection.db);
  if (cache === undefined) {
    cache = new UnpackedTexts(connection.file);
    UNPACKED_TEXTS.set(connection.db, cache);
  }
  return cache;
}

/** Maximum number of words to rank by. Each one requires visiting all its occurrences in every hit. */
const RANKED_LIMIT = 16;
/** Maximum number of hits to rank, newest first, so that the cost does not grow with the archive. */
const RANKED_HITS = 50_000;
/** The same limit for several alternatives, whose hits must be listed first. */
const RANKED_AMONG = 25_000;

function rankedWords({ has }: Pick<Conjunct, 'has'>): number {
  return has
    .flatMap((expression) => expression.match(STRINGS) ?? [])
    .filter((string) => !string.startsWith('meta')).length;
}

function rankedHits(has: readonly string[], limit: number): number {
  const stars = has.reduce((sum, expression) => sum + countPrefixes(expression), 0);
  const words = rankedWords({ has }) + STAR_WEIGHT * stars;
  return Math.ceil(limit / Math.max(1, words / FEW_WORDS));
}

/** Ranking has a fixed cost per hit, so up to this many words make little difference. */
const FEW_WORDS = 3;
const STAR_WEIGHT = 3;

/** The words and phrases in an FTS5 expression. The meta column has no weight; its strings start with its name. */
const STRINGS = /(?:- )?(?:meta : )?"[^"]*"/g;

/**
 * Returns docids by bm25 rank, best first, then newest first. Hits from several alternatives are ranked by the words of
 * all alternatives.
 *
 * @param inOrder all matches, newest first
 * @throws `search-too-complex`
 */
function byRelevance(
  connection: Connection,
  drives: readonly PlannedWalk[],
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
  const count = rankedHits(has, drives.length > 1 ? RANKED_AMONG : RANKED_HITS);
  if (only !== undefined && drives.length === 1 && has.length > 0) {
    const { sql, params } = rankNewest(only.conjunct, only.accessPath, limit, count, view);
    return inRank(connection.text<RankRow>(sql, params));
  }
  const newest = firstOf(inOrder(), has.length > 0 ? count : limit);
  if (has.length === 0) return newest;
  const { sql, params } = rankDocids(`(${has.join(' OR ')})`, newest, limit);
  const best = inRank(connection.text<RankRow>(sql, params));
  // Hits with none of the words come last, and only if the page has room.
  return best.length < limit ? [...new Set([...best, ...newest])].slice(0, limit) : best;
}

interface RankRow {
  readonly docid: number;
  readonly rank: number;
}

function inRank(rows: Iterable<RankRow>): number[] {
  return [...rows].sort((a, b) => a.rank - b.rank || b.docid - a.docid).map(({ docid }) => docid);
}

function firstOf(docids: Iterable<number>, limit: number): number[] {
  const first: number[] = [];
  for (const docid of docids) {
    if (first.length >= limit) break;
    first.push(docid);
  }
  return first;
}

/** What to search for. */
export interface CountRequest {
  readonly node: SearchNode;
  /** Milliseconds since the epoch. Searches the archive as it was then. */
  readonly asOf?: number | undefined;
  /** Hosts by lower-case account name, for `account:`. */
  readonly accounts?: ReadonlyMap<string, string>;
}

/** The matches to visit, newest first by default. */
interface Part {
  /** Skips this docid and all messages before it in this order. Ignored when sorting by relevance. */
  readonly after?: number | undefined;
  readonly sort?: 'newest' | 'oldest' | 'relevance' | undefined;
  /** Visits only these indexed messages, at most a few dozen. */
  readonly among?: readonly number[] | undefined;
}

export interface PageRequest extends Omit<Part, 'among'> {
  readonly limit: number;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  /** Called every few thousand messages. The search stops if it returns false, unless it sorts by relevance. */
  readonly mayContinue?: (() => boolean) | undefined;
}

export interface SearchPage {
  readonly hits: readonly SearchHit[];
  /** Docid to continue after if `mayContinue` stopped the search. */
  readonly stoppedAt: number | null;
}

/** A plan, as printed by `search --explain --json`. */
export interface SearchPlan {
  readonly drives: readonly { readonly driver: string; readonly sql: readonly string[] }[];
  readonly unknown: readonly UnknownName[];
}

type IdLookup = (prefix: string) => readonly number[];

/** A lower bound unless `complete`. */
export interface HitCount {
  readonly count: number;
  readonly complete: boolean;
}

const ID = selectBy('messages', 'id', 'docid');

/**
 * A query, resolved against the archive and planned at most once for each order until the catalog changes. Any method
 * can throw `search-too-complex`.
 */
export class PreparedQuery {
  #version: number | undefined;
  #resolved: Resolved | undefined;
  readonly #plans = new Map<Direction, Planned>();

  constructor(
    private readonly connection: Connection,
    private readonly places: Pick<PlaceQueries, 'flags'>,
    private readonly idLookup: IdLookup,
    private readonly request: CountRequest,
  ) {}

  page(request: PageRequest): SearchPage {
    const { limit, mayContinue } = request;
    return this.connection.snapshot(() => {
      const { names, view } = this.#resolve();
      const { connection, places } = this;
      const readHit = hitReader(connection, places, names, this.request.node, view);
      const hits: SearchHit[] = [];
      const watch = new TimeLimit(mayContinue);
      for (const docid of this.#pageDocids(request, watch)) {
        if (hits.length >= limit) break;
        const hit = readHit(docid);
        // The rank within a second counts the messages in all mailboxes.
        if (hit !== undefined)
          hits.push(view.scope === null ? hit : { ...hit, docid: docidBaseOf(hit.docid) });
      }
      return { hits, stoppedAt: hits.length >= limit ? null : watch.stoppedAt };
    });
  }

  count(part: Part = {}): number {
    return this.countWhile(() => true, part).count;
  }

  /** Calls `mayContinue` about every ten thousand messages, or at each hit, and stops if it returns false. */
  countWhile(mayContinue: () => boolean, part: Part = {}): HitCount {
    const { connection } = this;
    return connection.snapshot(() => {
      const { drives, view } = this.#plan(part);
      const [only] = drives;
      if (only === undefined) return { count: 0, complete: true };
      const isWhole = part.after === undefined && part.among === undefined;
      const { predicate } = this.#resolve();
      const bySums = isWhole ? countBySums(connection, predicate, view, mayContinue) : undefined;
      if (bySums !== undefined) return bySums;
      const byIndex = drives.length === 1 ? countStatement(only.conjunct, view) : undefined;
      if (byIndex !== undefined)
        for (const { n } of connection.text<{ n: number }>(byIndex.sql, byIndex.params))
          return { count: n, complete: true };
      const direction = directionOf(part);
      if (!isSparse(connection, drives, direction))
        return setsOf(connection, drives, view).countWhile(mayContinue);
      let count = 0;
      const watch = new TimeLimit(mayContinue);
      for (const _ of walkPaths(connection, drives, direction, view, watch)) {
        count += 1;
        if (!mayContinue()) return { count, complete: false };
      }
      return { count, complete: watch.stoppedAt === null };
    });
  }

  /** Yields the docids of all matches. Reads lazily. */
  *docids(part: Part = {}, mayContinue?: () => boolean): IterableIterator<number> {
    const { drives, view } = this.#plan(part);
    const watch = new TimeLimit(mayContinue);
    yield* walkPaths(this.connection, drives, directionOf(part), view, watch);
  }

  /**
   * Like `docids`, but optimised for the first matches. Returns the docid to continue after if `mayContinue` stopped it,
   * otherwise null.
   */
  *walk(
    part: Omit<Part, 'sort'> = {},
    mayContinue?: () => boolean,
  ): Generator<number, number | null, undefined> {
    const { drives, view } = this.#plan(part);
    const watch = new TimeLimit(mayContinue);
    yield* inOrder(this.connection, drives, 'newest', view, watch);
    return watch.stoppedAt;
  }

  /** Yields the IDs of the hits on a page. Reads lazily. */
  *ids(request: PageRequest): IterableIterator<MessageId> {
    let remaining = request.limit;
    for (const docid of this.#pageDocids(request, new TimeLimit())) {
      if (remaining <= 0) return;
      const row = this.connection.get(ID, { docid });
      if (row === undefined) continue;
      remaining -= 1;
      yield row.id.toString('hex');
    }
  }

  unknownNames(): readonly UnknownName[] {
    return this.#resolve().unknown;
  }

  explain(part: Part = {}): SearchPlan {
    const { connection } = this;
    const { drives, unknown, view } = this.#plan(part);
    const direction = directionOf(part);
    if (!isWalked(connection, drives, direction)) {
      const sql = setsOf(connection, drives, view).lists().map(toSql);
      return { unknown, drives: [{ driver: 'sets', sql }] };
    }
    return {
      unknown,
      drives: drives.map(({ conjunct, accessPath, stretch }) => ({
        driver: accessPath.by === 'both' ? `match and ${accessPath.rare.by}` : accessPath.by,
        sql: walkStatements({ ...conjunct, ...stretch }, accessPath, direction, view).map(toSql),
      })),
    };
  }

  /** Returns the place sets that match the query; undefined for past times, and if each message must be checked. */
  sumsFilter(): SumsFilter | undefined {
    const { predicate, view } = this.#resolve();
    return view.asOf === null ? sumsFilter(this.connection, predicate, view) : undefined;
  }

  /** Returns a test of a message's mailboxes if the query concerns only mailboxes and accounts, otherwise undefined. */
  mailboxTest(): ((mailboxes: readonly number[]) => boolean) | undefined {
    return testOf(this.#resolve().predicate, (part) =>
      part.op === 'mailboxes'
        ? (mailboxes) => mailboxes.some((id) => part.ids.includes(id))
        : undefined,
    );
  }

  #pageDocids(request: PageRequest, watch: TimeLimit): Iterable<number> {
    const { connection } = this;
    const { drives, view } = this.#plan(request);
    if (request.sort !== 'relevance') return inOrder(connection, drives, request.sort, view, watch);
    return byRelevance(connection, drives, request.limit, view, () =>
      inOrder(connection, drives, 'newest', view, new TimeLimit()),
    );
  }

  #resolve(): Resolved {
    const version = this.connection.version();
    if (this.#resolved === undefined || this.#version !== version) {
      this.#resolved = resolveRequest(this.connection, this.idLookup, this.request);
      this.#version = version;
      this.#plans.clear();
    }
    return this.#resolved;
  }

  #plan(part: Part): Planned {
    const resolved = this.#resolve();
    const direction = directionOf(part);
    const { after = null, among = null } =
      part.sort === 'relevance' ? { ...part, after: null } : part;
    if (after !== null || among !== null)
      return planWalks(this.connection, resolved, direction, after, among);
    const plan =
      this.#plans.get(direction) ?? planWalks(this.connection, resolved, direction, null, null);
    this.#plans.set(direction, plan);
    return plan;
  }
}

function directionOf({ sort }: Part): Direction {
  return sort === 'oldest' ? 'oldest' : 'newest';
}

export function searchQueries(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  ids: IdLookup,
) {
  const prepared = new WeakMap<CountRequest, PreparedQuery>();
  const prepare = (request: CountRequest): PreparedQuery => {
    const query = prepared.get(request) ?? new PreparedQuery(connection, places, ids, request);
    prepared.set(request, query);
    return query;
  };
  return {
    /**
     * Prepares a query. The same request object gets the same prepared query. Within a scope, hits have docids without
     * the rank within their second.
     */
    prepare,
    /** Returns the query with words that the archive has and that it finds something with; see `respell`. */
    respell: (query: string, request: CountRequest, mayContinue: () => boolean) =>
      connection.snapshot(() =>
        respell(connection, query, request, (node) => prepare({ ...request, node }), mayContinue),
      ),
    /**
     * Prepares fast counts of unread messages in the whole archive, which are valid until the next commit. Returns false
     * if `mayContinue` stopped it; the next call continues.
     */
    sumUnread: (mayContinue: () => boolean) =>
      connection.scope === null && sumUnread(connection, mayContinue),
  };
}

export type SearchQueries = ReturnType<typeof searchQueries>;

function toSql({ sql, params }: Sql): string {
  return params.reduce<string>(
    (text, param) =>
      text.replace('?', () => (typeof param === 'bigint' ? `${param}` : `'${param}'`)),
    sql,
  );
}

function resolveRequest(connection: Connection, ids: IdLookup, request: CountRequest) {
  const view = createView(connection, request);
  const { folders, flagSets } = archiveNames(connection, view.asOf);
  const unknown: UnknownName[] = [];
  const names: Names = {
    folders,
    flagSets,
    ever: () => allNames(connection),
    byIdPrefix: ids,
    threadOf: (docid) => threadOf(connection, docid),
    threadNaming: (messageId) => threadNaming(connection, messageId),
    observed: new ObservedCommits(connection, view),
    accounts: accountsOf(request.accounts ?? new Map(), folders, view),
  };
  const predicate = resolve(request.node, names, (name) => unknown.push(name));
  return { view, unknown, predicate, conjuncts: alternatives(predicate), names: folders };
}

type Resolved = ReturnType<typeof resolveRequest>;

function planWalks(
  connection: Connection,
  { view, unknown, predicate, conjuncts }: Resolved,
  direction: Direction,
  after: number | null,
  among: readonly number[] | null,
) {
  const members = { column: 'docid', values: among ?? [] } as const;
  const parts: Predicate[] = [predicate, { op: 'members', members }];
  const all = among === null ? conjuncts : alternatives({ op: 'and', parts });
  const bounded = all.map((conjunct) => {
    if (after === null) return conjunct;
    return direction === 'oldest'
      ? { ...conjunct, low: Math.max(conjunct.low, after + 1) }
      : { ...conjunct, high: Math.min(conjunct.high, after) };
  });
  const drives = bounded
    .filter(({ low, high }) => low < high)
    .map((conjunct) => chooseAccessPath(connection, conjunct, view, direction))
    .filter(({ conjunct }) => conjunct.low < conjunct.high);
  return { view, unknown, drives };
}

type Planned = ReturnType<typeof planWalks>;

function accountsOf(
  accounts: Names['accounts'],
  folders: Names['folders'],
  { scope }: View,
): Names['accounts'] {
  if (scope === null) return accounts;
  const hosts = new Set([...folders.values()].map(({ host }) => host.toLowerCase()));
  return new Map([...accounts].filter(([, host]) => hosts.has(host)));
}

function inOrder(
  connection: Connection,
  drives: readonly PlannedWalk[],
  direction: Direction,
  view: View,
  watch: TimeLimit,
): Iterable<number> {
  return isWalked(connection, drives, direction)
    ? walkPaths(connection, drives, direction, view, watch)
    : setsOf(connection, drives, view).walk(direction, watch);
}

/**
 * Reports whether to walk the indexes. A single alternative is always walked. Several are walked only if there are few
 * candidates, because each walk may have to go a long way to its next hit and check the same messages as the others.
 */
function isWalked(
  connection: Connection,
  drives: readonly PlannedWalk[],
  direction: Direction,
): boolean {
  return drives.length < 2 || isSparse(connection, drives, direction);
}

function setsOf(connection: Connection, drives: readonly PlannedWalk[], view: View): SetSearch {
  return new SetSearch(
    connection,
    drives.map(({ conjunct }) => conjunct),
    view,
  );
}
