import { isDated, receivedAt } from '../../mail/docid.ts';
import { wallTime } from '../../search/dates.ts';
import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { type FolderName, namesWithin } from '../folder-names.ts';
import { numberList } from '../number-list.ts';
import { type View, viewOf } from '../search/conditions.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { shownPlaces } from '../search/shown-places.ts';
import { foundPeople, foundTypes } from './by-content.ts';
import { Found } from './found.ts';
import type { Dimension } from './rows.ts';

/** Messages that are counted by what they are, the newest first: each costs some 30 µs. */
const MOST = 5_000;

/** What the messages are counted by. */
type Facet = Exclude<Dimension, 'to' | 'domain'>;

/**
 * A value, and how many messages have it: as many as the query finds with a term for it. A folder counts every message of
 * the result that is there, also where the query asks about a state: `is:unread in:Work` wants it unread in Work itself.
 */
export interface FacetValue {
  readonly key: string;
  readonly messages: number;
}

/** Years and months are the newest first, all others the largest. */
export interface Facets extends Readonly<Record<Facet, readonly FacetValue[]>> {
  /** How many messages were counted, of those that the query finds the newest. */
  readonly counted: number;
  /** Whether that is all of them. */
  readonly complete: boolean;
}

/**
 * Counts what a query finds by everything at once, in one walk over its messages. A message in two folders counts in each.
 *
 * @param limit values of each facet
 * @param mayContinue ends the walk where it says no
 */
export function facets(
  connection: Connection,
  search: Pick<SearchQueries, 'foundDocids'>,
  request: CountRequest,
  limit: number,
  mayContinue: () => boolean,
): Facets {
  const { docids, complete } = walked(search, request, mayContinue);
  const found = new Found(connection, { foundDocids: () => docids.values() }, request);
  const view = viewOf(connection, request);
  const known = archiveNames(connection, view.asOf).folders;
  const names = view.scope === null ? known : namesWithin(known, view.scope);
  const of = (keys: Iterable<string>): FacetValue[] =>
    [...counted(keys)].map(([key, messages]) => ({ key, messages }));
  const dated = docids.filter(isDated);
  const paths = foldersOf(connection, docids, found, view).flatMap((folders) =>
    pathsOf(folders, names),
  );
  return {
    counted: docids.length,
    complete,
    mailbox: largest(of(mailboxesOf(connection, found, names)), limit),
    folder: largest(of(paths), limit),
    year: of(dated.map((docid) => periodOf(docid).slice(0, 4))).slice(0, limit),
    month: of(dated.map(periodOf)).slice(0, limit),
    from: largest(foundPeople('from', found, limit), limit),
    type: largest(foundTypes(found), limit),
  };
}

function walked(
  search: Pick<SearchQueries, 'foundDocids'>,
  request: CountRequest,
  mayContinue: () => boolean,
): { readonly docids: readonly number[]; readonly complete: boolean } {
  let complete = true;
  const hasTime = (): boolean => {
    complete &&= mayContinue();
    return complete;
  };
  const docids: number[] = [];
  for (const docid of search.foundDocids(request, hasTime)) {
    if (docids.length === MOST) return { docids, complete: false };
    docids.push(docid);
  }
  return { docids, complete };
}

/** The folders of each message: where it is, or where it was last. */
function foldersOf(
  connection: Connection,
  docids: readonly number[],
  found: Found,
  view: View,
): (readonly number[])[] {
  // Sets know where a message is now, and in which folder of all mailboxes it was last.
  if (view.asOf !== null || view.scope !== null)
    return docids.map((docid) => lastOf(shownPlaces(connection, docid, view)));
  const rows = found.rows<{ current: string; last: string }>(
    `SELECT s.current, s.last FROM messages m JOIN place_sets s ON s.id = m.place_set
     WHERE m.docid IN`,
  );
  return rows.map(({ current, last }) => [
    ...numberList(current, connection.file),
    ...numberList(last, connection.file),
  ]);
}

function lastOf(places: ReturnType<typeof shownPlaces>): number[] {
  const open = places.filter(({ ended_at: ended }) => ended === null);
  const last = Math.max(...places.map(({ to_commit: to }) => to ?? 0));
  const shown = open.length > 0 ? open : places.filter(({ to_commit: to }) => to === last);
  return shown.map(({ folder_id: folder }) => folder);
}

/** Paths of folders, each once: folders of two mailboxes may have the same. */
function pathsOf(folders: readonly number[], names: ReadonlyMap<number, FolderName>): string[] {
  const paths = folders.flatMap((id) => names.get(id)?.path ?? []);
  // A query cannot name a folder that is called like everything.
  return [...new Set(paths)].filter((path) => path.toLowerCase() !== 'anywhere');
}

/** The address of each mailbox that a message is or was in, for each message. */
function mailboxesOf(
  connection: Connection,
  found: Found,
  names: ReadonlyMap<number, FolderName>,
): string[] {
  const addresses = new Map<number, string>();
  for (const { mailboxId, address } of names.values()) addresses.set(mailboxId, address);
  const rows = found.rows<{ mailboxes: string }>(
    `SELECT s.mailboxes FROM messages m JOIN place_sets s ON s.id = m.place_set WHERE m.docid IN`,
  );
  return rows.flatMap(({ mailboxes }) => [
    ...new Set(numberList(mailboxes, connection.file).flatMap((id) => addresses.get(id) ?? [])),
  ]);
}

/** The month of a message in the zone of this machine, as `2026-03`. */
function periodOf(docid: number): string {
  const { year, month } = wallTime(receivedAt(docid));
  return `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}`;
}

function counted(keys: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function largest(values: readonly FacetValue[], limit: number): FacetValue[] {
  return values
    .toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1))
    .slice(0, limit)
    .map(({ key, messages }) => ({ key, messages }));
}
