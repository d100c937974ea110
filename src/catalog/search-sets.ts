import type { Connection } from './database.ts';
import { indexQueries } from './indexing.ts';
import {
  type Conjunct,
  conjunctsOf,
  EVERYTHING,
  hasPrefixStar,
  isCurrent,
  lastPlaceCondition,
  type MemberSet,
  mergePlaceConditions,
  type ObservedChange,
  observedCondition,
  type PlaceCondition,
  type Predicate,
  placeCondition,
  seen,
  testOf,
  type View,
} from './resolve-query.ts';
import { type Direction, type Range, type Sql, TimeLimit, unionOf, within } from './search-sql.ts';
import { numberList, reachedCommit } from './sql.ts';
import { type ChartedSet, countUpTo, totalReceived } from './sums.ts';

/** Enough to fill a page if one message in fifty matches. */
const FIRST = 1_000;
const GROWTH = 4;
/** A list of docids takes about 16 bytes per message. */
const LONGEST = 65_536;
/** Limit if each message must be checked, which takes about 10 µs. */
const MAX_ASKED = 8_192;

/**
 * Evaluates several alternatives with sets: lists each distinct condition once and combines the lists. Costs about 0.1
 * µs per message and condition, however many messages match. Walks are faster if they fill a page early or have few
 * candidates.
 */
export class SetSearch {
  /** All matches of words with a star. Most of their cost is merging the word lists, so they are listed once. */
  readonly #starred = new Map<string, readonly number[]>();
  readonly #range: Range;

  constructor(
    private readonly connection: Connection,
    private readonly conjuncts: readonly Conjunct[],
    private readonly view: View,
  ) {
    this.#range = {
      low: Math.min(...conjuncts.map(({ low }) => low)),
      high: Math.max(...conjuncts.map(({ high }) => high)),
    };
  }

  /** Counts the matches of any alternative until `mayContinue` returns false. */
  countWhile(mayContinue: () => boolean): { readonly count: number; readonly complete: boolean } {
    let count = 0;
    for (const sets of this.#stretches('newest', this.#longest)) {
      count += sets.any(this.conjuncts).length;
      if (!mayContinue()) return { count, complete: false };
    }
    return { count, complete: true };
  }

  *walk(direction: Direction, watch = new TimeLimit()): Generator<number, void, undefined> {
    for (const sets of this.#stretches(direction, FIRST)) {
      const found = sets.any(this.conjuncts);
      yield* direction === 'newest' ? found.reverse() : found;
      const { low, high } = sets.range;
      const passed = direction === 'newest' ? low : high - 1;
      if (!sets.isLast && !watch.mayPass(passed, direction)) return;
    }
  }

  lists(): Sql[] {
    const found = new Map<string, Sql>();
    for (const conjunct of this.conjuncts)
      for (const condition of conditionsOf(conjunct, this.view)) {
        if (condition.of === 'list') found.set(condition.key, condition.list(this.#range));
        if (condition.of === 'starred') found.set(condition.key, condition.list(WHOLE));
      }
    return [...found.values()];
  }

  /** For a past time or a scope, each message's places are checked. */
  get #longest(): number {
    return this.view.asOf === null && this.view.scope === null ? LONGEST : MAX_ASKED;
  }

  *#stretches(direction: Direction, first: number): Generator<StretchSets, void, undefined> {
    let { low, high } = this.#range;
    const longest = this.#longest;
    for (let length = first; low < high; length = Math.min(longest, length * GROWTH)) {
      const order = direction === 'newest' ? 'DESC' : 'ASC';
      const messages = within('SELECT m.docid FROM messages m', 'm.docid', { low, high });
      const { sql, params } = sortBy(messages, order);
      const docids = readDocids(this.connection, { sql: `${sql} LIMIT ${length}`, params });
      if (direction === 'newest') docids.reverse();
      const [oldest] = docids;
      const newest = docids.at(-1);
      if (oldest === undefined || newest === undefined) return;
      const range = { low: oldest, high: newest + 1 };
      const isLast = docids.length < length;
      yield new StretchSets(this.connection, docids, range, isLast, this.view, this.#starred);
      if (direction === 'newest') high = oldest;
      else low = newest + 1;
    }
  }
}

/** A subset of a range's messages: 1 at the position of each member. */
type DocidSet = Uint8Array;

class StretchSets {
  readonly #cache = new Map<string, DocidSet>();
  #sizes: readonly number[] | undefined;

  constructor(
    private readonly connection: Connection,
    /** Ascending. */
    readonly docids: readonly number[],
    readonly range: Range,
    readonly isLast: boolean,
    private readonly view: View,
    private readonly starred: Map<string, readonly number[]>,
  ) {}

  any(conjuncts: readonly Conjunct[]): number[] {
    const sets = conjuncts.map((conjunct) => this.#evaluate(conjunct));
    return this.docids.filter((_, position) => sets.some((set) => set[position] === 1));
  }

  #evaluate(conjunct: Conjunct): DocidSet {
    const found = new Uint8Array(this.docids.length).fill(1);
    for (const condition of conditionsOf(conjunct, this.view)) {
      const set = this.#cache.get(condition.key) ?? this.#make(condition);
      this.#cache.set(condition.key, set);
      const expected = condition.holds ? 1 : 0;
      for (let position = 0; position < found.length; position += 1)
        if (set[position] !== expected) found[position] = 0;
      if (!found.includes(1)) break;
    }
    return found;
  }

  #make(condition: Condition): DocidSet {
    switch (condition.of) {
      case 'docids':
        return between(this.docids, condition.low, condition.high - 1);
      case 'sizes':
        this.#sizes ??= readDocids(
          this.connection,
          sortBy(within('SELECT m.size FROM messages m', 'm.docid', this.range), 'ASC'),
        );
        return between(this.#sizes, condition.low, condition.high);
      case 'list':
        return this.#setOf(readDocids(this.connection, condition.list(this.range)));
      case 'starred': {
        const { key } = condition;
        const docids = this.starred.get(key) ?? readDocids(this.connection, condition.list(WHOLE));
        this.starred.set(key, docids);
        return this.#setOf(docids);
      }
    }
  }

  #setOf(docids: readonly number[]): DocidSet {
    const found = new Uint8Array(this.docids.length);
    const [first = 1] = this.docids;
    const last = this.docids.at(-1) ?? 0;
    let position = 0;
    for (const docid of docids) {
      // A list of the whole archive is mostly outside this range.
      if (docid < first || docid > last) continue;
      // The lists are mostly ascending runs.
      if (this.docids[position] !== docid) position = countUpTo(this.docids, docid) - 1;
      if (this.docids[position] === docid) found[position] = 1;
      position += 1;
    }
    return found;
  }
}

function between(values: readonly number[], low: number, high: number): DocidSet {
  return Uint8Array.from(values, (value) => (value >= low && value <= high ? 1 : 0));
}

const WHOLE: Range = { low: 0, high: Number.MAX_SAFE_INTEGER };

/** `holds` is false for a condition that must not match. */
type Condition = { readonly key: string; readonly holds: boolean } & (
  | { readonly of: 'docids' | 'sizes'; readonly low: number; readonly high: number }
  | { readonly of: 'list' | 'starred'; readonly list: (range: Range) => Sql }
);

/**
 * Returns the conditions of a conjunct, cheapest first, since evaluation stops once the set is empty. Each condition
 * lists its docids from an index where they are adjacent, at 0.1 µs per docid; looking up the places of a message takes
 * 3 µs. Lists are unordered and may repeat docids.
 */
function conditionsOf(conjunct: Conjunct, view: View): Condition[] {
  const { low, high, sizeLow, sizeHigh, deleted, has, lacks } = conjunct;
  const isPresent = view.asOf === null && view.scope === null;
  const bounded = (of: 'docids' | 'sizes', from: number, to: number): Condition[] =>
    from > 0 || to < Number.MAX_SAFE_INTEGER
      ? [{ key: `${of} ${from} ${to}`, holds: true, of, low: from, high: to }]
      : [];
  const listing = (key: string, holds: boolean, list: (range: Range) => Sql): Condition => ({
    key,
    holds,
    of: 'list',
    list,
  });
  const checking = (key: string, holds: boolean, condition: string): Condition =>
    listing(key, holds, (range) => checkQuery(condition, range));
  const placement = (holds: boolean) => (place: PlaceCondition) => {
    const key = `place ${place.folders?.join() ?? 'any'} ${place.flagSets?.join() ?? 'any'}`;
    return isPresent
      ? listing(key, holds, (range) => listPlace(place, range))
      : checking(key, holds, placeCondition(place, view));
  };
  const membership = (holds: boolean) => (members: MemberSet) => {
    const condition = `t.${members.column} IN (${members.values.join(', ')})`;
    return listing(condition, holds, (range) =>
      within('SELECT t.docid FROM thread_members t', 't.docid', range, [condition]),
    );
  };
  const observation = (holds: boolean) => (change: ObservedChange) => {
    const condition = observedCondition(change, view);
    return checking(condition, holds, condition);
  };
  const text = (holds: boolean) => (expression: string) => ({
    key: `text ${expression}`,
    holds,
    of: hasPrefixStar(expression) ? ('starred' as const) : ('list' as const),
    list: (range: Range) =>
      within('SELECT rowid FROM msg_fts', 'rowid', range, ['msg_fts MATCH ?'], [expression]),
  });
  const isDeleted = isPresent ? 'm.open_places = 0' : `NOT ${isCurrent(view)}`;
  const visible = seen(view);
  return [
    ...bounded('docids', low, high),
    ...conjunct.members.map(membership(true)),
    ...mergePlaceConditions(conjunct.places).map(placement(true)),
    ...(deleted === null ? [] : [checking('deleted', deleted, isDeleted)]),
    ...conjunct.observed.map(observation(true)),
    ...has.map(text(true)),
    // An unindexed message matches neither text nor its absence.
    ...(has.length === 0 && lacks.length > 0 ? [text(true)(EVERYTHING)] : []),
    ...lacks.map(text(false)),
    ...conjunct.noPlaces.map(placement(false)),
    ...conjunct.noMembers.map(membership(false)),
    ...conjunct.noObserved.map(observation(false)),
    ...bounded('sizes', sizeLow, sizeHigh),
    ...(visible.length === 0 ? [] : [checking('seen', true, visible.join(' AND '))]),
  ];
}

function listPlace(place: PlaceCondition, range: Range): Sql {
  const { folders, flagSets } = place;
  const current = within('SELECT p.docid FROM places p', 'p.docid', range, [
    'p.to_commit IS NULL',
    ...(folders === null ? [] : [`p.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [`p.flag_set IN (${flagSets.join(', ')})`]),
  ]);
  // A message without a current place is counted under its last one.
  return unionOf([
    current,
    checkQuery(`m.open_places = 0 AND ${lastPlaceCondition(place, null)}`, range),
  ]);
}

function checkQuery(condition: string, range: Range): Sql {
  return within('SELECT m.docid FROM messages m', 'm.docid', range, [condition]);
}

function sortBy({ sql, params }: Sql, direction: 'ASC' | 'DESC'): Sql {
  return { sql: `${sql} ORDER BY m.docid ${direction}`, params };
}

function readDocids(connection: Connection, { sql, params }: Sql): number[] {
  return connection.column<number>(sql, params);
}

/** A filter that stored totals can answer exactly. */
export interface SumsFilter {
  /** Docids, half-open like `Range`. */
  readonly low: number;
  readonly high: number;
  readonly fits: (set: ChartedSet) => boolean;
}

/**
 * Returns the place sets that match a query for everything, folders, mailboxes, times or deleted messages; undefined
 * for other queries, and for past times, which the totals do not cover.
 */
export function sumsFilter(
  connection: Connection,
  predicate: Predicate,
  { asOf, scope }: View,
): SumsFilter | undefined {
  if (asOf !== null) return undefined;
  let [low, high] = [0, Number.MAX_SAFE_INTEGER];
  const parts: Predicate[] = [];
  for (const part of conjunctsOf(predicate)) {
    if (part.op === 'docids') {
      low = Math.max(low, part.low);
      high = Math.min(high, part.high);
    } else parts.push(part);
  }
  const fits = testOf<ChartedSet>({ op: 'and', parts }, (part) => {
    switch (part.op) {
      case 'never':
        return () => false;
      case 'deleted':
        return ({ deleted }) => deleted;
      case 'mailboxes':
        // The full-text index resolves mailboxes.
        if (indexQueries(connection).pendingCount() > 0) return undefined;
        return ({ mailboxes }) => mailboxes.some((id) => part.ids.includes(id));
      case 'place': {
        const { folders, flagSets } = part.place;
        // If a message has left the scope, its set does not record its last place there.
        if (flagSets !== null || scope !== null) return undefined;
        return ({ current, last }) =>
          [...current, ...last].some((folder) => folders?.includes(folder) ?? true);
      }
      default:
        return undefined;
    }
  });
  if (fits === undefined) return undefined;
  return low < high ? { low, high, fits } : { low: 0, high: 0, fits: () => false };
}

/** Counts matches from stored totals, or from those of `sumUnread`. Returns undefined if they are not enough. */
export function countBySums(
  connection: Connection,
  predicate: Predicate,
  view: View,
): number | undefined {
  const unread = unreadCount(connection, predicate, view);
  if (unread !== undefined) return unread;
  const filter = sumsFilter(connection, predicate, view);
  if (filter === undefined || filter.low > 0 || filter.high < Number.MAX_SAFE_INTEGER)
    return undefined;
  return totalReceived(connection).all(filter.fits).messages;
}

/** Unread messages that share folders and mailboxes. */
interface Group {
  /** Current folders in which they are unread, or else the last ones. */
  readonly folders: readonly number[];
  readonly mailboxes: readonly number[];
  messages: number;
}

interface Kept {
  readonly commit: number;
  readonly groups: Map<string, Group>;
  /** Progress of the two walks: over messages with current places, and over those without. */
  readonly reached: number[];
  isComplete: boolean;
}

/** Flags change only with a commit. */
const KEPT = new WeakMap<Connection, Kept>();

/** Each walks an index that contains only matching rows, by docid, and groups the next 256 messages. */
const WALKS = [
  `SELECT p.docid, p.folder_id FROM places p INDEXED BY places_unread
   WHERE p.to_commit IS NULL AND p.marks & 1 = 0 AND p.docid > ?`,
  `SELECT m.docid, q.folder_id FROM messages m INDEXED BY messages_ended
     CROSS JOIN places q ON q.docid = m.docid
   WHERE m.open_places = 0 AND m.docid > ? AND q.marks & 1 = 0
     AND q.to_commit = (SELECT max(l.to_commit) FROM places l WHERE l.docid = m.docid)`,
].map(
  (rows) => `SELECT max(docid) AS last, folders, m.place_set, count(*) AS messages
    FROM (SELECT docid, json_group_array(DISTINCT folder_id) AS folders FROM (${rows})
      GROUP BY docid ORDER BY docid LIMIT 256)
      CROSS JOIN messages m USING (docid)
    GROUP BY folders, m.place_set`,
);

/**
 * Counts unread messages by folders and mailboxes. If time runs out, the next call continues.
 *
 * @returns whether the totals are complete
 */
export function sumUnread(connection: Connection, mayContinue: () => boolean): boolean {
  const commit = reachedCommit(connection);
  let cache = KEPT.get(connection);
  if (cache?.commit !== commit) {
    cache = { commit, groups: new Map(), reached: [0, 0], isComplete: false };
    KEPT.set(connection, cache);
  }
  const { groups, reached } = cache;
  for (const [walk, sql] of WALKS.entries()) {
    if (cache.isComplete) break;
    for (;;) {
      const after = reached[walk] ?? 0;
      const rows = [...connection.text<GroupRow>(sql, [BigInt(after)])];
      if (rows.length === 0) break;
      for (const { folders, place_set: set, messages } of rows) {
        const group = groups.get(`${set} ${folders}`);
        if (group !== undefined) group.messages += messages;
        else
          groups.set(`${set} ${folders}`, {
            folders: numberList(folders, connection.file),
            mailboxes: mailboxesOf(connection, set),
            messages,
          });
      }
      reached[walk] = Math.max(...rows.map(({ last }) => last));
      if (!mayContinue()) return false;
    }
  }
  cache.isComplete = true;
  return true;
}

interface GroupRow {
  readonly last: number;
  readonly folders: string;
  readonly place_set: number;
  readonly messages: number;
}

function mailboxesOf(connection: Connection, set: number): number[] {
  const sql = 'SELECT mailboxes FROM place_sets WHERE id = ?';
  return numberList(connection.first<string>(sql, [BigInt(set)]) ?? '[]', connection.file);
}

/** Counts unread messages in folders and mailboxes, if `sumUnread` has finished. */
function unreadCount(
  connection: Connection,
  predicate: Predicate,
  { asOf }: View,
): number | undefined {
  const parts = conjunctsOf(predicate);
  const places = parts.flatMap((part) => (part.op === 'place' ? part.place : []));
  const mailboxes = parts.flatMap((part) => (part.op === 'mailboxes' ? [part.ids] : []));
  const others = places.filter(({ indexed }) => indexed !== 'unread');
  const isCounted =
    asOf === null &&
    parts.length === places.length + mailboxes.length &&
    places.length - others.length === 1 &&
    others.length <= 1 &&
    others.every(({ folders, flagSets }) => folders !== null && flagSets === null);
  if (!isCounted) return undefined;
  if (mailboxes.length > 0 && indexQueries(connection).pendingCount() > 0) return undefined;
  const cache = KEPT.get(connection);
  if (cache?.isComplete !== true || cache.commit !== reachedCommit(connection)) return undefined;
  const folders = others[0]?.folders ?? null;
  let count = 0;
  for (const group of cache.groups.values()) {
    const isThere = folders === null || group.folders.some((id) => folders.includes(id));
    const isTheirs = mailboxes.every((ids) => group.mailboxes.some((id) => ids.includes(id)));
    if (isThere && isTheirs) count += group.messages;
  }
  return count;
}
