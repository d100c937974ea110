import { searchError } from '../../errors/usage.ts';

/** A condition on one place of a message: in one of these folders, with one of these flag sets. Null: any. */
export interface PlaceCondition {
  readonly folders: readonly number[] | null;
  readonly flagSets: readonly number[] | null;
  /** Which index knows such places by docid, if one does. */
  readonly indexed: 'unread' | 'starred' | null;
}

/** Messages by what threading knows of them: in one of these threads, with one of these Message-IDs, or themselves. */
export interface Members {
  readonly column: 'thread' | 'node' | 'docid';
  readonly values: readonly number[];
}

/** Messages by the commit that stored them first, or by the one with which they were deleted. */
export interface Observed {
  readonly what: 'added' | 'deleted';
  /** Numbers of commits, both included. */
  readonly low: number;
  readonly high: number;
  /** Commits between them that are of another time: clocks are set back. */
  readonly except: readonly number[];
}

/** A query in the catalog's terms. `fts` is an FTS5 expression of our own making. */
export type Formula =
  | { readonly op: 'and' | 'or'; readonly parts: readonly Formula[] }
  | { readonly op: 'not'; readonly part: Formula }
  | { readonly op: 'fts'; readonly expression: string }
  /** Docids from `low` (included) to `high` (excluded). */
  | { readonly op: 'docids'; readonly low: number; readonly high: number }
  | { readonly op: 'size'; readonly low: number; readonly high: number }
  | { readonly op: 'place'; readonly place: PlaceCondition }
  | { readonly op: 'members'; readonly members: Members }
  /** `within` has the docids of all that can be meant, where few are. */
  | {
      readonly op: 'observed';
      readonly observed: Observed;
      readonly within: { readonly low: number; readonly high: number } | null;
    }
  | { readonly op: 'deleted' }
  | { readonly op: 'always' | 'never' };

/**
 * One alternative of a query: everything in it must hold. The index answers the expressions and the bounds of docids;
 * the rest is asked of each candidate.
 */
export interface Conjunct {
  /** FTS5 expressions that must hold, and that must not. */
  readonly has: readonly string[];
  readonly lacks: readonly string[];
  readonly low: number;
  readonly high: number;
  readonly sizeLow: number;
  readonly sizeHigh: number;
  readonly places: readonly PlaceCondition[];
  readonly noPlaces: readonly PlaceCondition[];
  readonly members: readonly Members[];
  readonly noMembers: readonly Members[];
  readonly observed: readonly Observed[];
  readonly noObserved: readonly Observed[];
  readonly deleted: boolean | null;
}

/** Matches every indexed message. */
export const EVERYTHING = 'meta : "zall"';

/** Alternatives that a query may multiply out to. */
const CONJUNCT_LIMIT = 32;

/** Words with a star in all alternatives together: the index merges the lists of all words that begin so for each. */
const STAR_LIMIT = 6;
/** A string of ours with a star behind it: no quote stands within one. */
const STARS = /" \*/g;

/** True when an expression has a word with a star. */
export function hasStar(expression: string): boolean {
  return starsIn(expression) > 0;
}

export function starsIn(expression: string): number {
  return expression.match(STARS)?.length ?? 0;
}

const WHOLE: Conjunct = {
  has: [],
  lacks: [],
  low: 0,
  high: Number.MAX_SAFE_INTEGER,
  sizeLow: 0,
  sizeHigh: Number.MAX_SAFE_INTEGER,
  places: [],
  noPlaces: [],
  members: [],
  noMembers: [],
  observed: [],
  noObserved: [],
  deleted: null,
};

/**
 * The alternatives of a formula. What the full-text index can answer by itself stays one expression, whatever
 * its shape; only what mixes text with other filters is multiplied out, so that each alternative can be walked
 * newest first and stop early.
 *
 * @throws `search-too-complex` when there are too many
 */
export function alternatives(formula: Formula): Conjunct[] {
  const found = expand(formula, true).filter(isPossible);
  const stars = found
    .flatMap(({ has, lacks }) => [...has, ...lacks])
    .reduce((sum, expression) => sum + starsIn(expression), 0);
  if (found.length > 1 && stars > STAR_LIMIT)
    throw searchError('search-too-complex', { limit: STAR_LIMIT, of: 'stars' });
  return found;
}

function expand(formula: Formula, holds: boolean): Conjunct[] {
  // Text that is excluded stays apart from text that is sought, by which hits are ranked.
  if (formula.op === 'not') return expand(formula.part, !holds);
  const expression = ftsExpression(formula);
  if (expression !== undefined)
    return [holds ? { ...WHOLE, has: [expression] } : { ...WHOLE, lacks: [expression] }];
  switch (formula.op) {
    case 'and':
    case 'or': {
      const all = (formula.op === 'and') === holds;
      const parts = gathered(formula.parts, formula.op).map((part) => expand(part, holds));
      const found = all ? product(parts) : parts.flat();
      if (found.length > CONJUNCT_LIMIT)
        throw searchError('search-too-complex', { limit: CONJUNCT_LIMIT, of: 'alternatives' });
      return found;
    }
    case 'docids':
      if (holds) return [{ ...WHOLE, low: formula.low, high: formula.high }];
      return [
        { ...WHOLE, high: formula.low },
        { ...WHOLE, low: formula.high },
      ];
    case 'size':
      if (holds) return [{ ...WHOLE, sizeLow: formula.low, sizeHigh: formula.high }];
      return [
        { ...WHOLE, sizeHigh: formula.low - 1 },
        { ...WHOLE, sizeLow: formula.high + 1 },
      ];
    case 'place':
      return [
        holds ? { ...WHOLE, places: [formula.place] } : { ...WHOLE, noPlaces: [formula.place] },
      ];
    case 'members':
      return [
        holds
          ? { ...WHOLE, members: [formula.members] }
          : { ...WHOLE, noMembers: [formula.members] },
      ];
    case 'observed': {
      const { observed, within } = formula;
      if (!holds) return [{ ...WHOLE, noObserved: [observed] }];
      const deleted = observed.what === 'deleted' ? true : null;
      return [{ ...WHOLE, ...within, observed: [observed], deleted }];
    }
    case 'deleted':
      return [{ ...WHOLE, deleted: holds }];
    case 'always':
    case 'never':
      return (formula.op === 'always') === holds ? [WHOLE] : [];
    case 'fts':
      return [];
  }
}

/** Puts the parts that one index answers by itself into one: they need no alternatives. */
function gathered(parts: readonly Formula[], op: 'and' | 'or'): readonly Formula[] {
  const text = parts.filter((part) => ftsExpression(part) !== undefined);
  const found = parts.filter((part) => !text.includes(part));
  if (text.length > 0) found.unshift(text.length === 1 ? (text[0] ?? ALWAYS) : { op, parts: text });
  if (op === 'and') return found;
  for (const column of ['thread', 'node', 'docid'] as const) {
    const same = found.flatMap((part) =>
      part.op === 'members' && part.members.column === column ? [part.members] : [],
    );
    if (same.length < 2) continue;
    const rest = found.filter((part) => part.op !== 'members' || part.members.column !== column);
    const values = [...new Set(same.flatMap((members) => members.values))];
    found.splice(0, found.length, ...rest, { op: 'members', members: { column, values } });
  }
  return found;
}

const ALWAYS: Formula = { op: 'always' };

function product(factors: readonly Conjunct[][]): Conjunct[] {
  let found: Conjunct[] = [WHOLE];
  for (const factor of factors) {
    found = found.flatMap((left) => factor.map((right) => both(left, right))).filter(isPossible);
    if (found.length > CONJUNCT_LIMIT)
      throw searchError('search-too-complex', { limit: CONJUNCT_LIMIT, of: 'alternatives' });
  }
  return found;
}

function both(a: Conjunct, b: Conjunct): Conjunct {
  const contradiction = a.deleted !== null && b.deleted !== null && a.deleted !== b.deleted;
  return {
    has: [...a.has, ...b.has],
    lacks: [...a.lacks, ...b.lacks],
    low: Math.max(a.low, b.low),
    high: contradiction ? 0 : Math.min(a.high, b.high),
    sizeLow: Math.max(a.sizeLow, b.sizeLow),
    sizeHigh: Math.min(a.sizeHigh, b.sizeHigh),
    places: [...a.places, ...b.places],
    noPlaces: [...a.noPlaces, ...b.noPlaces],
    members: [...a.members, ...b.members],
    noMembers: [...a.noMembers, ...b.noMembers],
    observed: [...a.observed, ...b.observed],
    noObserved: [...a.noObserved, ...b.noObserved],
    deleted: a.deleted ?? b.deleted,
  };
}

function isPossible({ low, high, sizeLow, sizeHigh, places, members }: Conjunct): boolean {
  return (
    low < high &&
    members.every(({ values }) => values.length > 0) &&
    sizeLow <= sizeHigh &&
    places.every(
      ({ folders, flagSets }) =>
        (folders === null || folders.length > 0) && (flagSets === null || flagSets.length > 0),
    )
  );
}

/** The FTS5 expression of a formula that the index can answer by itself. */
function ftsExpression(formula: Formula): string | undefined {
  switch (formula.op) {
    case 'fts':
      return formula.expression;
    case 'not': {
      const part = ftsExpression(formula.part);
      return part === undefined ? undefined : matchOf([], [part]);
    }
    case 'or': {
      const parts = formula.parts.map(ftsExpression);
      return parts.some((part) => part === undefined) ? undefined : `(${parts.join(' OR ')})`;
    }
    case 'and': {
      const has: string[] = [];
      const lacks: string[] = [];
      for (const part of formula.parts) {
        const negated = part.op === 'not';
        const expression = ftsExpression(negated ? part.part : part);
        if (expression === undefined) return undefined;
        (negated ? lacks : has).push(expression);
      }
      return matchOf(has, lacks);
    }
    default:
      return undefined;
  }
}

/** One FTS5 expression: all of `has` and none of `lacks`. Its NOT has two sides, so it needs something to start from. */
export function matchOf(has: readonly string[], lacks: readonly string[]): string {
  const start = has.length === 0 ? EVERYTHING : has.join(' AND ');
  const whole = has.length > 1 || lacks.length > 0 ? `(${start})` : start;
  return lacks.length === 0 ? whole : `(${whole} NOT (${lacks.join(' OR ')}))`;
}
