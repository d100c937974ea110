import { sql } from 'kysely';
import type { Envelope } from './fold/envelope.ts';
import { type Builder, query, type Row } from './query.ts';

/** A place as the list queries give it; all views have the same columns. */
export interface ListRow
  extends Envelope,
    Pick<Row<'places'>, 'docid' | 'folder_id' | 'generation' | 'uid' | 'flag_set'> {
  readonly id: Buffer | null;
  readonly size: number;
  readonly place_date: number | null;
  readonly first_seen: number;
  readonly ended_at: number | null;
}

/** Null as a column: compound queries want one in each arm, and all arms their columns in one order. */
const nothing = sql<number | null>`null`;
const noId = sql<Buffer | null>`null`;

/** Columns of a place's row that do not change with its flags, and those of its message. */
const OF_PLACE_AND_MESSAGE = [
  'p.folder_id as folder_id',
  'p.generation as generation',
  'p.uid as uid',
  'm.size as size',
  'm.date as date',
  'm.subject as subject',
  'm.sender_name as sender_name',
  'm.sender_address as sender_address',
  'm.message_id as message_id',
  'seen.time as first_seen',
] as const;

/**
 * Places with their messages. The joins are CROSS so that SQLite walks the places' index in docid order, and
 * never starts from the messages and sorts.
 */
function placesArm(db: Builder) {
  return (
    db
      .selectFrom('places as p')
      .crossJoin('messages as m')
      .crossJoin('commits as seen')
      .whereRef('m.docid', '=', 'p.docid')
      .whereRef('seen.number', '=', 'p.first_commit')
      .select(['p.docid as docid', 'p.flag_set as flag_set', 'p.date as place_date'])
      // A quarantined place has none, and all arms must agree on the type.
      .select((eb) => eb.ref('m.id').$castTo<Buffer | null>().as('id'))
      .select(OF_PLACE_AND_MESSAGE)
  );
}

function spansArm(db: Builder) {
  return db
    .selectFrom('spans as s')
    .crossJoin('places as p')
    .crossJoin('messages as m')
    .crossJoin('commits as seen')
    .whereRef('p.id', '=', 's.place_id')
    .whereRef('m.docid', '=', 's.docid')
    .whereRef('seen.number', '=', 'p.first_commit')
    .select(['s.docid as docid', 's.flag_set as flag_set', 's.date as place_date'])
    .select((eb) => eb.ref('m.id').$castTo<Buffer | null>().as('id'))
    .select(OF_PLACE_AND_MESSAGE);
}

function quarantineArm(db: Builder) {
  return db
    .selectFrom('quarantine as q')
    .crossJoin('commits as seen')
    .whereRef('seen.number', '=', 'q.first_commit')
    .select(['q.position as docid', 'q.flag_set as flag_set', nothing.as('place_date')])
    .select(noId.as('id'))
    .select(['q.folder_id as folder_id', 'q.generation as generation', 'q.uid as uid'])
    .select(['q.size as size', 'q.date as date', 'q.subject as subject'])
    .select(['q.sender_name as sender_name', 'q.sender_address as sender_address'])
    .select(['q.message_id as message_id', 'seen.time as first_seen', nothing.as('ended_at')]);
}

/** What a list is narrowed to: docids from `low` up to, and without, `high`; and a folder where the scope is one. */
export interface ListBounds {
  readonly folder: number;
  readonly low: number;
  readonly high: number;
}

/** Narrows the arms to one folder, or leaves them whole. */
type RowSource = (db: Builder, bounds: ListBounds) => Arms;

interface Arms {
  readonly current: ReturnType<typeof placesArm>;
  readonly ended: ReturnType<typeof placesArm>;
  readonly spans: ReturnType<typeof spansArm>;
  readonly quarantined: ReturnType<typeof quarantineArm>;
}

const everywhere: RowSource = (db, { low, high }) => {
  const places = placesArm(db).where('p.docid', '>=', low).where('p.docid', '<', high);
  return {
    current: places.where('p.to_commit', 'is', null),
    ended: places.where('p.to_commit', 'is not', null),
    spans: spansArm(db).where('s.docid', '>=', low).where('s.docid', '<', high),
    quarantined: quarantineArm(db).where('q.position', '>=', low).where('q.position', '<', high),
  };
};

const inFolder: RowSource = (db, bounds) => {
  const arms = everywhere(db, bounds);
  const { folder } = bounds;
  return {
    current: arms.current.where('p.folder_id', '=', folder),
    ended: arms.ended.where('p.folder_id', '=', folder),
    spans: arms.spans.where('s.folder_id', '=', folder),
    quarantined: arms.quarantined.where('q.folder_id', '=', folder),
  };
};

function views(source: RowSource, order: 'asc' | 'desc') {
  return {
    current: query<ListBounds>()((db, p) => {
      const { current, quarantined } = source(db, p);
      return current
        .select(nothing.as('ended_at'))
        .unionAll(quarantined.where('q.to_commit', 'is', null))
        .orderBy('docid', order);
    }),
    asOf: query<ListBounds & { commit: number }>()((db, p) => {
      const { current, ended, spans, quarantined } = source(db, p);
      return current
        .where('p.from_commit', '<=', p.commit)
        .select(nothing.as('ended_at'))
        .unionAll(
          ended
            .where('p.from_commit', '<=', p.commit)
            .where('p.to_commit', '>', p.commit)
            .select(nothing.as('ended_at')),
        )
        .unionAll(
          spans
            .where('s.from_commit', '<=', p.commit)
            .where('s.to_commit', '>', p.commit)
            .select(nothing.as('ended_at')),
        )
        .unionAll(
          quarantined
            .where('q.from_commit', '<=', p.commit)
            .where((eb) =>
              eb.or([eb('q.to_commit', 'is', null), eb('q.to_commit', '>', p.commit)]),
            ),
        )
        .orderBy('docid', order);
    }),
    held: query<ListBounds>()((db, p) =>
      source(db, p)
        .current.where('p.held', '=', 1)
        .select(nothing.as('ended_at'))
        .orderBy('docid', order),
    ),
    deleted: query<ListBounds>()((db, p) =>
      source(db, p)
        .ended.crossJoin('commits as closing')
        .whereRef('closing.number', '=', 'p.to_commit')
        .select('closing.time as ended_at')
        .orderBy('docid', order),
    ),
    deletedAsOf: query<ListBounds & { commit: number }>()((db, p) => {
      const { ended, spans } = source(db, p);
      return ended
        .where('p.to_commit', '<=', p.commit)
        .crossJoin('commits as closing')
        .whereRef('closing.number', '=', 'p.to_commit')
        .select('closing.time as ended_at')
        .unionAll(
          spans
            .where('s.resumed', 'is not', null)
            .where('s.to_commit', '<=', p.commit)
            .where('s.resumed', '>', p.commit)
            .crossJoin('commits as closing')
            .whereRef('closing.number', '=', 's.to_commit')
            .select('closing.time as ended_at'),
        )
        .orderBy('docid', order);
    }),
  };
}

/** The list's queries, over all folders and over one, by the order of docids. */
export const LIST_ROWS = {
  newest: { everywhere: views(everywhere, 'desc'), inFolder: views(inFolder, 'desc') },
  oldest: { everywhere: views(everywhere, 'asc'), inFolder: views(inFolder, 'asc') },
};
