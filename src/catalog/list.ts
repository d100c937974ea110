import { docidAt } from '../mail/docid.ts';
import type { PlaceLine } from '../mail/lines.ts';
import type { FlagSet } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import {
  type FolderFilter,
  type FolderName,
  folderNames,
  matchingFolders,
  namesIn,
  namesWithin,
} from './folder-names.ts';
import { LIST_ROWS, type ListRow } from './list-rows.ts';
import { readable, senderOf } from './messages.ts';
import { commitAt, isoTime } from './moments.ts';
import type { PlaceQueries } from './places.ts';
import type { Scope } from './scope.ts';

export interface ListFilter extends FolderFilter {
  /** Ended places instead of current ones. */
  readonly deleted?: boolean | undefined;
  /** Only current places that the brake keeps current although the origin no longer shows them. */
  readonly held?: boolean | undefined;
  /** What the archive had observed at this time, milliseconds since the epoch. */
  readonly asOf?: number | undefined;
  /** Only messages received at this time or later, and before that; milliseconds since the epoch. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** Only these mailboxes, as if there were no others. */
  readonly scope?: Scope | undefined;
  /** Newest first where it is not given. */
  readonly sort?: ListOrder | undefined;
}

export type ListOrder = 'newest' | 'oldest';

/** A place with what names it in facts. */
export interface ListedPlace {
  readonly line: PlaceLine;
  readonly folder: FolderName;
  readonly generation: number;
  readonly docid: number;
}

/** Above this many folders one walk over all places is cheaper than merging a walk for each. */
const MERGED_FOLDERS = 64;

/**
 * Current places, ended ones, or either as of a time: newest first, those of one docid by folder and uid; oldest first
 * is exactly the reverse. The received date of a message counts, not that of a copy. While it is not drained or returned, the connection holds a read transaction and cannot write.
 */
export function* list(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  filter: ListFilter,
): Generator<PlaceLine, void, undefined> {
  for (const { line } of listPlaces(connection, places, filter)) yield line;
}

/** The same, with what names the places in facts. */
export function* listPlaces(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  filter: ListFilter,
): Generator<ListedPlace, void, undefined> {
  const commit = filter.asOf === undefined ? undefined : commitAt(connection, filter.asOf);
  const all = folderNames(connection, commit);
  const names = filter.scope === undefined ? all : namesWithin(all, filter.scope);
  const { sort = 'newest' } = filter;
  for (const row of ordered(rows(connection, filter, names, commit), sort)) {
    const name = names.get(row.folder_id);
    if (name === undefined) continue;
    yield {
      line: placeLine(row, name, places.flags(row.flag_set)),
      folder: name,
      generation: row.generation,
      docid: row.docid,
    };
  }
}

function* rows(
  connection: Connection,
  filter: ListFilter,
  names: ReadonlyMap<number, FolderName>,
  commit: number | undefined,
): Generator<ListRow, void, undefined> {
  const { sort = 'newest', from, to } = filter;
  const { everywhere, inFolder } = LIST_ROWS[sort];
  const low = from === undefined && to === undefined ? 0 : docidAt(from ?? null);
  const high = to === undefined ? Number.MAX_SAFE_INTEGER : docidAt(to);
  const open = (views: typeof everywhere, folder: number) => {
    const bounds = { folder, low, high };
    if (filter.held === true) return connection.rows(views.held, bounds);
    if (filter.deleted === true)
      return commit === undefined
        ? connection.rows(views.deleted, bounds)
        : connection.rows(views.deletedAsOf, { ...bounds, commit });
    return commit === undefined
      ? connection.rows(views.current, bounds)
      : connection.rows(views.asOf, { ...bounds, commit });
  };
  const { scope } = filter;
  if (namesIn(filter.mailbox).length + namesIn(filter.folder).length === 0 && scope === undefined) {
    yield* open(everywhere, 0);
    return;
  }
  const wanted = new Set(matchingFolders([...names.values()], filter).map((name) => name.id));
  if (wanted.size <= MERGED_FOLDERS || scope !== undefined) {
    yield* merged(
      [...wanted].map((folder) => open(inFolder, folder)),
      sort,
    );
    return;
  }
  for (const row of open(everywhere, 0)) if (wanted.has(row.folder_id)) yield row;
}

/** Merges walks in one order into one walk in that order. */
function* merged(
  walks: readonly IterableIterator<ListRow>[],
  sort: ListOrder,
): Generator<ListRow, void, undefined> {
  const isBefore = (a: ListRow, b: ListRow): boolean =>
    sort === 'newest' ? a.docid > b.docid : a.docid < b.docid;
  try {
    const heads = walks.flatMap((walk) => {
      const first = walk.next();
      return first.done === true ? [] : [{ walk, row: first.value }];
    });
    for (let next = heads[0]; next !== undefined; next = heads[0]) {
      for (const head of heads) if (isBefore(head.row, next.row)) next = head;
      yield next.row;
      const after = next.walk.next();
      if (after.done === true) heads.splice(heads.indexOf(next), 1);
      else next.row = after.value;
    }
  } finally {
    for (const walk of walks) walk.return?.();
  }
}

/**
 * Puts the rows of one docid in an order of their own: an index gives them in the order of row numbers, which
 * says nothing and differs between the arms of an as-of query.
 */
function* ordered(source: Iterable<ListRow>, sort: ListOrder): Generator<ListRow, void, undefined> {
  let same: ListRow[] = [];
  for (const row of source) {
    if (same.length > 0 && same[0]?.docid !== row.docid) {
      yield* inOrder(same, sort);
      same = [];
    }
    same.push(row);
  }
  yield* inOrder(same, sort);
}

function inOrder(same: ListRow[], sort: ListOrder): ListRow[] {
  if (same.length < 2) return same;
  const sign = sort === 'newest' ? 1 : -1;
  return same.sort(
    (a, b) => sign * (a.folder_id - b.folder_id || a.generation - b.generation || b.uid - a.uid),
  );
}

/** A row as a line of the contract. */
export function placeLine(row: ListRow, name: FolderName, flags: FlagSet): PlaceLine {
  return {
    id: row.id === null ? null : row.id.toString('hex'),
    mailbox: name.address,
    folder: name.path,
    uid: row.uid,
    flags,
    size: row.size,
    date: isoTime(row.place_date ?? row.date),
    subject: readable(row.subject),
    from: senderOf(row),
    messageId: row.message_id,
    firstSeen: isoTime(row.first_seen),
    endedAt: isoTime(row.ended_at),
  };
}
