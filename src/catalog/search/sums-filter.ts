import type { PlaceSet } from '../place-sets.ts';
import type { View } from './conditions.ts';
import type { Conjunct } from './formula.ts';

/** What sums over sets of places answer as well as asking each message would. */
export interface SumsFilter {
  /** Docids from `low` (included) to `high` (excluded). */
  readonly low: number;
  readonly high: number;
  /** @param isDeleted whether a message there has no current place that the reader may see */
  fits(set: PlaceSet, isDeleted: boolean): boolean;
}

const NOTHING: SumsFilter = { low: 0, high: 0, fits: () => false };

/**
 * Returns which sets of places the alternatives of a query find: everything, folders, mailboxes, times, and what is
 * deleted. Sums are those of now; undefined for any other question.
 *
 * @param isIndexed whether every message is in the full-text index, by which mailboxes are found
 */
export function sumsFilter(
  conjuncts: readonly Conjunct[],
  { asOf, scope }: View,
  isIndexed: () => boolean,
): SumsFilter | undefined {
  const [only] = conjuncts;
  if (only === undefined) return NOTHING;
  if (conjuncts.length > 1 || asOf !== null) return undefined;
  const { has, lacks, low, high, sizeLow, sizeHigh, places, noPlaces, deleted } = only;
  const asksFolders = places.length + noPlaces.length > 0;
  // A set does not say where a message was last within a scope that it left.
  if (asksFolders && scope !== null) return undefined;
  const isPlain =
    lacks.length === 0 &&
    only.members.length + only.noMembers.length === 0 &&
    only.observed.length + only.noObserved.length === 0 &&
    sizeLow === 0 &&
    sizeHigh === Number.MAX_SAFE_INTEGER &&
    [...places, ...noPlaces].every(({ flagSets }) => flagSets === null);
  if (!isPlain || (has.length > 0 && !isIndexed())) return undefined;
  const mailboxes = has.map(mailboxesMeant);
  if (mailboxes.some((ids) => ids === undefined)) return undefined;
  const isIn = (set: PlaceSet, folders: readonly number[] | null) =>
    [...set.current, ...set.last].some((folder) => folders?.includes(folder) ?? true);
  return {
    low,
    high,
    fits: (set, isDeleted) =>
      (deleted === null || deleted === isDeleted) &&
      places.every(({ folders }) => isIn(set, folders)) &&
      noPlaces.every(({ folders }) => !isIn(set, folders)) &&
      mailboxes.every((ids) => set.mailboxes.some((id) => ids?.has(id))),
  };
}

/** `mailboxToken` makes the words. */
const MAILBOXES = /^\(meta : "zbox\d+"(?: OR meta : "zbox\d+")*\)$/;
const IDS = /(?<="zbox)\d+/g;

/** Returns the mailboxes one of which an expression asks for, as `resolve` writes it; undefined for any other. */
export function mailboxesMeant(expression: string): ReadonlySet<number> | undefined {
  return MAILBOXES.test(expression)
    ? new Set((expression.match(IDS) ?? []).map(Number))
    : undefined;
}
