import type { Connection } from '../connection.ts';
import {
  atPlace,
  isCurrent,
  lastPlaceIs,
  seen,
  together,
  type View,
  wasObserved,
} from './conditions.ts';
import { type DocidSet, Stretch } from './docid-sets.ts';
import {
  type Conjunct,
  EVERYTHING,
  hasStar,
  type Members,
  type Observed,
  type PlaceCondition,
} from './formula.ts';
import { type Direction, type Range, type Sql, unionOf, within } from './sql.ts';
import { Watch } from './walk.ts';

/*
 * Statements that list the docids of one condition within a range, from whichever index has them adjacent:
 * 0.1 µs a docid, where looking up the places of each message takes 3 µs. In no order; docids may come twice.
 */

/** Messages of a range from one end of it, each once and in that order. */
export function listMessages(range: Range, direction: 'ASC' | 'DESC', limit: number): Sql {
  const { sql, params } = within('SELECT m.docid FROM messages m', 'm.docid', range);
  return { sql: `${sql} ORDER BY m.docid ${direction} LIMIT ${limit}`, params };
}

/** The size of each message of a range, in order of their docids. */
export function listSizes(range: Range): Sql {
  const { sql, params } = within('SELECT m.size FROM messages m', 'm.docid', range);
  return { sql: `${sql} ORDER BY m.docid`, params };
}

export function listText(expression: string, range: Range): Sql {
  return within('SELECT rowid FROM msg_fts', 'rowid', range, ['msg_fts MATCH ?'], [expression]);
}

export function listPlace(place: PlaceCondition, range: Range, view: View): Sql {
  if (view.asOf !== null || view.scope !== null) return listAsked(atPlace(place, view), range);
  const { folders, flagSets } = place;
  const current = within('SELECT p.docid FROM places p', 'p.docid', range, [
    'p.to_commit IS NULL',
    ...(folders === null ? [] : [`p.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [`p.flag_set IN (${flagSets.join(', ')})`]),
  ]);
  // What has no current place counts by its last one.
  const ended = listAsked(`m.open_places = 0 AND ${lastPlaceIs(place, null)}`, range);
  return unionOf([current, ended]);
}

export function listMembers({ column, values }: Members, range: Range): Sql {
  return within('SELECT t.docid FROM thread_members t', 't.docid', range, [
    `t.${column} IN (${values.join(', ')})`,
  ]);
}

export function listDeleted(range: Range, view: View): Sql {
  const isNow = view.asOf === null && view.scope === null;
  return listAsked(isNow ? 'm.open_places = 0' : `NOT ${isCurrent(view)}`, range);
}

export function listObserved(change: Observed, range: Range, view: View): Sql {
  return listAsked(wasObserved(change, view), range);
}

/** What a view shows. */
export function listSeen(range: Range, view: View): Sql {
  return listAsked(seen(view).join(' AND '), range);
}

/** Asks each message of the range. */
function listAsked(condition: string, range: Range): Sql {
  return within('SELECT m.docid FROM messages m', 'm.docid', range, [condition]);
}

/** Messages of the first stretch: as many as fill a page where one of fifty is found. */
const FIRST = 1_000;
const GROWTH = 4;
/** Messages of the longest stretch: a list of docids takes some 16 bytes for each. */
const LONGEST = 65_536;
/** The same where each message is asked, which takes some 10 µs. */
const LONGEST_ASKED = 8_192;

/**
 * What several alternatives find, as sets: each condition is listed once, however many alternatives have it, and no
 * message is asked by itself. So it takes about 0.1 µs a message and condition, whatever is found and however the
 * conditions hang together; where walks would soon fill a page, or have few candidates, they are faster.
 */
export class SetSearch {
  /** What words with a star find anywhere: merging the lists of all words that begin so is most of their cost. */
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

  /** Returns the number of messages that any alternative finds, or of those found before `mayContinue` said no. */
  countWhile(mayContinue: () => boolean): { readonly count: number; readonly complete: boolean } {
    let count = 0;
    for (const sets of this.#stretches('newest', this.#longest)) {
      count += sets.any(this.conjuncts).count();
      if (!mayContinue()) return { count, complete: false };
    }
    return { count, complete: true };
  }

  /** Every docid that any alternative finds. */
  *walk(direction: Direction, watch = new Watch()): Generator<number, void, undefined> {
    for (const sets of this.#stretches(direction, FIRST)) {
      const found = sets.any(this.conjuncts);
      yield* direction === 'newest' ? found.descending() : found.ascending();
      const { low, high } = sets.range;
      const passed = direction === 'newest' ? low : high - 1;
      if (!sets.isLast && !watch.mayPass(passed, direction)) return;
    }
  }

  /** The statements that list its conditions, each once. */
  lists(): Sql[] {
    const found = new Map<string, Sql>();
    for (const conjunct of this.conjuncts)
      for (const condition of conditionsOf(conjunct, this.view)) {
        if (condition.of === 'list') found.set(condition.key, condition.list(this.#range));
        if (condition.of === 'starred') found.set(condition.key, condition.list(WHOLE));
      }
    return [...found.values()];
  }

  /** Of another time, or in a scope, each message is asked about its places. */
  get #longest(): number {
    return this.view.asOf === null && this.view.scope === null ? LONGEST : LONGEST_ASKED;
  }

  *#stretches(direction: Direction, first: number): Generator<StretchSets, void, undefined> {
    let { low, high } = this.#range;
    const longest = this.#longest;
    for (let length = first; low < high; length = Math.min(longest, length * GROWTH)) {
      const order = direction === 'newest' ? 'DESC' : 'ASC';
      const docids = listed(this.connection, listMessages({ low, high }, order, length));
      if (direction === 'newest') docids.reverse();
      const [oldest] = docids;
      const newest = docids.at(-1);
      if (oldest === undefined || newest === undefined) return;
      const range = { low: oldest, high: newest + 1 };
      const stretch = new Stretch(docids);
      const isLast = docids.length < length;
      yield new StretchSets(this.connection, stretch, range, isLast, this.view, this.#starred);
      if (direction === 'newest') high = oldest;
      else low = newest + 1;
    }
  }
}

/** The sets of one stretch, each made when first asked for. */
class StretchSets {
  readonly #known = new Map<string, DocidSet>();
  #sizes: readonly number[] | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly stretch: Stretch,
    readonly range: Range,
    /** Whether no messages follow. */
    readonly isLast: boolean,
    private readonly view: View,
    private readonly starred: Map<string, readonly number[]>,
  ) {}

  any(conjuncts: readonly Conjunct[]): DocidSet {
    return conjuncts.reduce((found, conjunct) => found.or(this.#of(conjunct)), this.stretch.none());
  }

  #of(conjunct: Conjunct): DocidSet {
    let found = this.stretch.all();
    for (const condition of conditionsOf(conjunct, this.view)) {
      const set = this.#known.get(condition.key) ?? this.#make(condition);
      this.#known.set(condition.key, set);
      found = condition.holds ? found.and(set) : found.without(set);
      if (found.isEmpty()) break;
    }
    return found;
  }

  #make(condition: Condition): DocidSet {
    switch (condition.of) {
      case 'docids':
        return this.stretch.between(condition.low, condition.high);
      case 'sizes': {
        this.#sizes ??= listed(this.connection, listSizes(this.range));
        const sizes = this.#sizes;
        return this.stretch.where((position) => {
          const size = sizes[position] ?? 0;
          return size >= condition.low && size <= condition.high;
        });
      }
      case 'list':
        return this.stretch.of(listed(this.connection, condition.list(this.range)));
      case 'starred': {
        const { key } = condition;
        const docids = this.starred.get(key) ?? listed(this.connection, condition.list(WHOLE));
        this.starred.set(key, docids);
        return this.stretch.of(docids);
      }
    }
  }
}

const WHOLE: Range = { low: 0, high: Number.MAX_SAFE_INTEGER };

/** One condition of a conjunct: its set is intersected with, or taken away where it must not hold. */
type Condition = { readonly key: string; readonly holds: boolean } & (
  | { readonly of: 'docids' | 'sizes'; readonly low: number; readonly high: number }
  | { readonly of: 'list' | 'starred'; readonly list: (range: Range) => Sql }
);

/** From cheap to dear, since nothing more is asked once nothing is left. */
function conditionsOf(conjunct: Conjunct, view: View): Condition[] {
  const { low, high, sizeLow, sizeHigh, deleted, has, lacks } = conjunct;
  const between = (of: 'docids' | 'sizes', from: number, to: number): Condition[] =>
    from > 0 || to < Number.MAX_SAFE_INTEGER
      ? [{ key: `${of} ${from} ${to}`, holds: true, of, low: from, high: to }]
      : [];
  const listing = (key: string, holds: boolean, list: (range: Range) => Sql): Condition => ({
    key,
    holds,
    of: 'list',
    list,
  });
  const where = (holds: boolean) => (place: PlaceCondition) => {
    const key = `place ${place.folders?.join() ?? 'any'} ${place.flagSets?.join() ?? 'any'}`;
    return listing(key, holds, (range) => listPlace(place, range, view));
  };
  const who = (holds: boolean) => (members: Members) => {
    const key = `${members.column} ${members.values.join()}`;
    return listing(key, holds, (range) => listMembers(members, range));
  };
  const changed = (holds: boolean) => (change: Observed) => {
    const key = `${change.what} ${change.low} ${change.high} ${change.except.join()}`;
    return listing(key, holds, (range) => listObserved(change, range, view));
  };
  const says = (holds: boolean) => (expression: string) => ({
    key: `text ${expression}`,
    holds,
    of: hasStar(expression) ? ('starred' as const) : ('list' as const),
    list: (range: Range) => listText(expression, range),
  });
  return [
    ...between('docids', low, high),
    ...conjunct.members.map(who(true)),
    ...together(conjunct.places).map(where(true)),
    ...(deleted === null ? [] : [listing('deleted', deleted, (range) => listDeleted(range, view))]),
    ...conjunct.observed.map(changed(true)),
    ...has.map(says(true)),
    // What is not indexed yet is neither found by its text nor by lacking one.
    ...(has.length === 0 && lacks.length > 0 ? [says(true)(EVERYTHING)] : []),
    ...lacks.map(says(false)),
    ...conjunct.noPlaces.map(where(false)),
    ...conjunct.noMembers.map(who(false)),
    ...conjunct.noObserved.map(changed(false)),
    ...between('sizes', sizeLow, sizeHigh),
    ...(seen(view).length === 0 ? [] : [listing('seen', true, (range) => listSeen(range, view))]),
  ];
}

function listed(connection: Connection, { sql, params }: Sql): number[] {
  return connection.column<number>(sql, params);
}
