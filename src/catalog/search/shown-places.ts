import type { Connection } from '../connection.ts';
import { type Builder, query, type Row } from '../query.ts';
import { foldersOf } from '../scope.ts';
import type { View } from './conditions.ts';

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
  return inOrder(
    view.asOf === null
      ? intervalsOf(connection, docid, view).places
      : placesAt(connection, docid, view.asOf, view),
  );
}

/** Current places in the order in which they came, then ended ones, the last to end first. */
function inOrder(rows: readonly PlaceRow[]): PlaceRow[] {
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
