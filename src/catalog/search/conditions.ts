import type { Connection } from '../connection.ts';
import { commitAt } from '../moments.ts';
import { foldersIn, isVisible, type Scope } from '../scope.ts';
import type { Conjunct, Members, Observed, PlaceCondition } from './formula.ts';

/** What a search sees of the archive. */
export interface View {
  /** The state at a commit, or null for now. */
  readonly asOf: number | null;
  /** Some mailboxes, or null for all. */
  readonly scope: Scope | null;
}

/** Returns what a search sees that asks about a time, milliseconds since the epoch, and some mailboxes. */
export function viewOf(
  connection: Connection,
  { asOf, scope }: { readonly asOf?: number | undefined; readonly scope?: Scope | undefined },
): View {
  return {
    asOf: asOf === undefined ? null : commitAt(connection, asOf),
    scope: scope ?? null,
  };
}

/** What is asked of each candidate `m`. */
export function filtersOf(conjunct: Conjunct, view: View): string[] {
  const { sizeLow, sizeHigh, deleted, noPlaces, members, noMembers, observed, noObserved } =
    conjunct;
  return [
    ...seen(view),
    ...(sizeLow > 0 ? [`m.size >= ${sizeLow}`] : []),
    ...(sizeHigh < Number.MAX_SAFE_INTEGER ? [`m.size <= ${sizeHigh}`] : []),
    ...(deleted === null ? [] : [deleted ? `NOT ${isCurrent(view)}` : isCurrent(view)]),
    ...together(conjunct.places).map((place) => atPlace(place, view)),
    ...members.map((some) => isMember(some)),
    ...noMembers.map((some) => `NOT ${isMember(some)}`),
    ...observed.map((change) => wasObserved(change, view)),
    ...noObserved.map((change) => `NOT ${wasObserved(change, view)}`),
    ...apart(noPlaces).map((place) => `NOT ${atPlace(place, view)}`),
  ];
}

/**
 * Conditions on places that stand together mean one place: `in:INBOX is:unread` is unread in INBOX. Two
 * folders ask for a place in each, with the states that were asked for.
 */
export function together(places: readonly PlaceCondition[]): readonly PlaceCondition[] {
  const states = places.filter(({ folders }) => folders === null);
  const inFolders = places.filter(({ folders }) => folders !== null);
  const flagSets = states
    .map((place) => place.flagSets ?? [])
    .reduce<readonly number[] | null>(
      (common, sets) => (common === null ? sets : common.filter((id) => sets.includes(id))),
      null,
    );
  if (inFolders.length === 0)
    return flagSets === null ? [] : [{ folders: null, flagSets, indexed: null }];
  return inFolders.map(({ folders }) => ({ folders, flagSets, indexed: null }));
}

/** In none of some folders is in none of all of them: each message is asked about its places once, not once a folder. */
function apart(noPlaces: readonly PlaceCondition[]): readonly PlaceCondition[] {
  const folders = noPlaces.flatMap((place) =>
    place.flagSets === null ? (place.folders ?? []) : [],
  );
  const flagSets = noPlaces.flatMap((place) =>
    place.folders === null ? (place.flagSets ?? []) : [],
  );
  return [
    ...(folders.length === 0 ? [] : [{ folders: unique(folders), flagSets: null, indexed: null }]),
    ...(flagSets.length === 0
      ? []
      : [{ folders: null, flagSets: unique(flagSets), indexed: null }]),
    ...noPlaces.filter((place) => place.folders !== null && place.flagSets !== null),
  ];
}

function unique(ids: readonly number[]): number[] {
  return [...new Set(ids)];
}

function isMember({ column, values }: Members): string {
  return `EXISTS (SELECT 1 FROM thread_members t WHERE t.docid = m.docid AND t.${column} IN (${values.join(', ')}))`;
}

/** What holds for every message `m` that a view shows. */
export function seen({ asOf, scope }: View): string[] {
  if (scope === null) return asOf === null ? [] : [`m.first_commit <= ${asOf}`];
  if (asOf === null) return [isVisible(scope)];
  const then = `q.docid = m.docid AND q.first_commit <= ${asOf}${inScope(scope)}`;
  return [isVisible(scope), `EXISTS (SELECT 1 FROM places q WHERE ${then})`];
}

export function isCurrent({ asOf, scope }: View): string {
  if (asOf !== null) return openAt(asOf, inScope(scope));
  return scope === null ? '(m.open_places > 0)' : isOpen(inScope(scope));
}

/** The condition holds at a current place; or, for a message that has none, at its last. */
export function atPlace(place: PlaceCondition, { asOf, scope }: View): string {
  const ours = inScope(scope);
  const condition = `${ofPlace(place)}${ours}`;
  if (asOf !== null)
    return `(${openAt(asOf, condition)} OR (NOT ${openAt(asOf, ours)} AND ${lastWas(asOf, condition, ours)}))`;
  const none = scope === null ? 'm.open_places = 0' : `NOT ${isOpen(ours)}`;
  return `(${isOpen(condition)} OR (${none} AND ${lastPlaceIs(place, scope)}))`;
}

/** Of a message without a current place: it holds at the last. */
export function lastPlaceIs(place: PlaceCondition, scope: Scope | null): string {
  const ours = inScope(scope);
  const last = `SELECT max(q.to_commit) FROM places q WHERE q.docid = m.docid${ours}`;
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit = (${last})${ofPlace(place)}${ours})`;
}

/** A change that the archive observed, as whoever sees only some mailboxes could have. */
export function wasObserved({ what, low, high, except }: Observed, view: View): string {
  const ours = inScope(view.scope);
  const ofPlaces = (column: string) =>
    `(SELECT ${column} FROM places q WHERE q.docid = m.docid${ours})`;
  const added = view.scope === null ? 'm.first_commit' : ofPlaces('min(q.first_commit)');
  const deleted =
    view.asOf === null
      ? ofPlaces('max(q.to_commit)')
      : `(SELECT max(to_commit) FROM (${endedBy(view.asOf, ours)}))`;
  const commit = what === 'added' ? added : deleted;
  return [
    `(${commit} BETWEEN ${low} AND ${high}`,
    ...(except.length === 0 ? [] : [`${commit} NOT IN (${except.join(', ')})`]),
    ...(what === 'added' ? [] : [`NOT ${isCurrent(view)}`]),
  ]
    .join(' AND ')
    .concat(')');
}

/** That a place `q` is in a scope, to be added to other conditions. */
function inScope(scope: Scope | null): string {
  return scope === null ? '' : ` AND q.folder_id IN ${foldersIn(scope)}`;
}

function ofPlace({ folders, flagSets }: PlaceCondition): string {
  return [
    ...(folders === null ? [] : [` AND q.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [` AND q.flag_set IN (${flagSets.join(', ')})`]),
  ].join('');
}

function isOpen(condition: string): string {
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit IS NULL${condition})`;
}

function openAt(commit: number, condition: string): string {
  const within = `q.docid = m.docid AND q.from_commit <= ${commit}`;
  return `(EXISTS (SELECT 1 FROM places q WHERE ${within} AND (q.to_commit IS NULL OR q.to_commit > ${commit})${condition}) OR EXISTS (SELECT 1 FROM spans q WHERE ${within} AND q.to_commit > ${commit}${condition}))`;
}

/**
 * The condition held at one of the places that ended last by a commit.
 *
 * @param ours which places count, see `inScope`
 */
function lastWas(commit: number, condition: string, ours: string): string {
  const ended = endedBy(commit, ours);
  return `EXISTS (SELECT 1 FROM (${ended}) q WHERE q.to_commit = (SELECT max(to_commit) FROM (${ended}))${condition})`;
}

/** The places of a message that had ended by a commit; `resumed` is when a place came back. */
function endedBy(commit: number, ours: string): string {
  const closed = (table: string) =>
    `SELECT folder_id, flag_set, to_commit FROM ${table} q WHERE docid = m.docid AND to_commit <= ${commit}${ours}`;
  return `${closed('places')} UNION ALL ${closed('spans')} AND resumed > ${commit}`;
}
