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
import type { HitCount } from './search.ts';
import { type Direction, type Range, type Sql, TimeLimit, unionOf, within } from './search-sql.ts';
import { isOwnFolder, numberList, reachedCommit } from './sql.ts';
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
  readonly fits: (set: Placement) => boolean;
}

/**
 * Returns the place sets that match a query for everything, folders, mailboxes, times or deleted messages; undefined
 * for other queries.
 */
export function sumsFilter(
  connection: Connection,
  predicate: Predicate,
  { asOf, scope }: View,
): SumsFilter | undefined {
  let [low, high] = [0, Number.MAX_SAFE_INTEGER];
  const parts: Predicate[] = [];
  for (const part of conjunctsOf(predicate)) {
    if (part.op === 'docids') {
      low = Math.max(low, part.low);
      high = Math.min(high, part.high);
    } else parts.push(part);
  }
  const fits = testOf<Placement>({ op: 'and', parts }, (part) => {
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
        // If a message has left the scope, its set does not record its last place there. Sums of the past do.
        if (flagSets !== null || (scope !== null && asOf === null)) return undefined;
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

/** Counts matches from sums. Returns undefined if no sums answer the query. */
export function countBySums(
  connection: Connection,
  predicate: Predicate,
  view: View,
  mayContinue: () => boolean,
): HitCount | undefined {
  const { asOf, scope } = view;
  const parts = conjunctsOf(predicate);
  const unread = parts.filter((part) => part.op === 'place' && part.place.indexed === 'unread');
  const added = parts.flatMap((part) =>
    part.op === 'observed' && part.observed.what === 'added' ? [part.observed] : [],
  );
  const others = parts.filter(
    (part) => !unread.includes(part) && !(part.op === 'observed' && added.includes(part.observed)),
  );
  const filter = sumsFilter(connection, { op: 'and', parts: others }, view);
  if (filter === undefined || filter.low > 0 || filter.high < Number.MAX_SAFE_INTEGER)
    return undefined;
  const { fits } = filter;
  if (added.length > 0) {
    if (unread.length > 0 || asOf !== null || scope !== null) return undefined;
    const conditions = added.map((change) => observedCondition(change, view));
    return { count: countAdded(connection, conditions, fits), complete: true };
  }
  if (unread.length === 0 && asOf === null)
    return { count: totalReceived(connection).all(fits).messages, complete: true };
  // `is:unread` concerns one place, which a second folder or the absence of one does not describe.
  const folders = others.filter(({ op }) => op === 'place').length;
  const isOnePlace = others.every(({ op }) => op === 'place' || op === 'mailboxes');
  if (unread.length > 1 || (unread.length === 1 && (folders > 1 || !isOnePlace))) return undefined;
  const sums = keptSums(connection, asOf);
  // The full-text index finds the messages of a mailbox sooner than all messages can be summed.
  const isWalked = asOf !== null && !others.some(({ op }) => op === 'mailboxes');
  const complete = isWalked
    ? continueSums(connection, sums, [pastWalk(view)], mayContinue)
    : sums.isComplete;
  if (!isWalked && !complete) return undefined;
  let count = 0;
  for (const group of sums.groups.values()) {
    const places = unread.length === 0 ? group.all : group.unread;
    if (places !== null && fits(places)) count += group.messages;
  }
  return { count, complete };
}

function countAdded(
  connection: Connection,
  conditions: readonly string[],
  fits: SumsFilter['fits'],
): number {
  const rows = connection.values<readonly [set: number, messages: number]>(
    `SELECT m.place_set, count(*) FROM messages m INDEXED BY messages_by_commit
     WHERE ${conditions.join(' AND ')} GROUP BY m.place_set`,
  );
  const { sets } = totalReceived(connection);
  let count = 0;
  for (const [id, messages] of rows) {
    const set = sets.get(id);
    if (set !== undefined && fits(set)) count += messages;
  }
  return count;
}

/** Messages with the same folders and mailboxes. */
interface Group {
  readonly all: Placement;
  /** The folders in which the messages are unread; null if there are none. */
  readonly unread: Placement | null;
  messages: number;
}

type Placement = Omit<ChartedSet, 'id'>;

interface Kept {
  readonly commit: number;
  readonly asOf: View['asOf'];
  readonly groups: Map<string, Group>;
  /** Last docid of each walk. */
  readonly reached: number[];
  isComplete: boolean;
}

/** Sums change only with a commit. */
const UNREAD = new WeakMap<Connection, Kept>();
const PAST = new WeakMap<Connection, Kept>();

function keptSums(connection: Connection, asOf: View['asOf']): Kept {
  const commit = reachedCommit(connection);
  const all = asOf === null ? UNREAD : PAST;
  const kept = all.get(connection);
  if (kept?.commit === commit && kept.asOf === asOf) return kept;
  const sums = { commit, asOf, groups: new Map(), reached: [], isComplete: false };
  all.set(connection, sums);
  return sums;
}

/** The last commit of a place that has not ended. */
const OPEN = Number.MAX_SAFE_INTEGER;

/**
 * Groups the next messages by their places.
 *
 * @param rows selects each place as `spot`: its folder, whether the message is unread there, and its last commit
 */
function groupingWalk(rows: string): string {
  return `SELECT max(docid) AS last, spots, m.place_set, count(*) AS messages
    FROM (SELECT docid, group_concat(spot) AS spots FROM (${rows})
      GROUP BY docid ORDER BY docid LIMIT 1024)
      CROSS JOIN messages m USING (docid)
    GROUP BY spots, m.place_set`;
}

/** Each walks an index that contains only matching rows: unread messages with current places, and those without. */
const UNREAD_WALKS = [
  `SELECT p.docid, p.folder_id || ',1,${OPEN}' AS spot FROM places p INDEXED BY places_unread
   WHERE p.to_commit IS NULL AND p.marks & 1 = 0 AND p.docid > ?`,
  `SELECT m.docid, q.folder_id || ',1,' || q.to_commit AS spot
   FROM messages m INDEXED BY messages_ended CROSS JOIN places q ON q.docid = m.docid
   WHERE m.open_places = 0 AND m.docid > ? AND q.marks & 1 = 0
     AND q.to_commit = (SELECT max(l.to_commit) FROM places l WHERE l.docid = m.docid)`,
].map(groupingWalk);

/** Walks the places of all messages. A place that has changed since is read from its span. */
function pastWalk(view: View): string {
  const { asOf, scope } = view;
  const spot = (row: string, marks: string) =>
    `${row}.folder_id || ',' || (${marks} & 1 = 0) || ',' || iif(${row}.to_commit <= ${asOf}, ${row}.to_commit, ${OPEN})`;
  const span = `SELECT ${spot('s', '(SELECT marks FROM flag_sets WHERE id = s.flag_set)')}
    FROM spans s WHERE s.place_id = p.id AND s.from_commit <= ${asOf}
      AND (s.to_commit > ${asOf} OR s.resumed > ${asOf})`;
  return groupingWalk(
    `SELECT m.docid, iif(p.from_commit <= ${asOf}, ${spot('p', 'p.marks')}, (${span})) AS spot
     FROM messages m LEFT JOIN places p ON p.docid = m.docid AND ${isOwnFolder('p.folder_id', scope)}
     WHERE m.docid > ? AND ${seen(view).join(' AND ')}`,
  );
}

/**
 * Counts unread messages by folders and mailboxes. If time runs out, the next call continues.
 *
 * @returns whether the totals are complete
 */
export function sumUnread(connection: Connection, mayContinue: () => boolean): boolean {
  return continueSums(connection, keptSums(connection, null), UNREAD_WALKS, mayContinue);
}

function continueSums(
  connection: Connection,
  sums: Kept,
  walks: readonly string[],
  mayContinue: () => boolean,
): boolean {
  const { groups, reached } = sums;
  const { sets } = totalReceived(connection);
  for (const [walk, sql] of walks.entries()) {
    if (sums.isComplete) break;
    for (;;) {
      const rows = [...connection.text<GroupRow>(sql, [BigInt(reached[walk] ?? 0)])];
      if (rows.length === 0) break;
      for (const { spots, place_set: set, messages } of rows) {
        const numbers = numberList(`[${spots ?? ''}]`, connection.file);
        const placements = placementsOf(numbers, sets.get(set)?.mailboxes ?? []);
        const key = JSON.stringify(placements);
        const group = groups.get(key);
        if (group === undefined) groups.set(key, { ...placements, messages });
        else group.messages += messages;
      }
      reached[walk] = Math.max(...rows.map(({ last }) => last));
      if (!mayContinue()) return false;
    }
  }
  sums.isComplete = true;
  return true;
}

interface GroupRow {
  readonly last: number;
  /** Null if the message has no places. */
  readonly spots: string | null;
  readonly place_set: number;
  readonly messages: number;
}

/** @param spots three numbers for each place, see `groupingWalk` */
function placementsOf(
  spots: readonly number[],
  mailboxes: readonly number[],
): Pick<Group, 'all' | 'unread'> {
  const ends = spots.filter((_, at) => at % 3 === 2);
  // A message may have more places than a call can have arguments.
  const end = ends.reduce((last, one) => Math.max(last, one), 0);
  const deleted = end < OPEN;
  const placement = (minimum: number): Placement => {
    const found = ends.flatMap((one, place) => {
      const [folder = 0, unread = 0] = [spots[place * 3], spots[place * 3 + 1]];
      return one === end && unread >= minimum ? [folder] : [];
    });
    const folders = [...new Set(found)];
    return { current: deleted ? [] : folders, last: deleted ? folders : [], mailboxes, deleted };
  };
  const unread = placement(1);
  const isUnread = unread.current.length + unread.last.length > 0;
  return { all: placement(0), unread: isUnread ? unread : null };
}
