import type { PlaceLine } from '../mail/lines.ts';
import type { MessageId, Place } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { messageQueries, readable } from './messages.ts';
import { type Builder, query, type Row } from './query.ts';
import { RECORD_MESSAGE } from './tables.ts';

/** A message by what people know it by. */
export interface ConcernedMessage {
  /** Null where only the place is known. */
  readonly id: MessageId | null;
  readonly subject: string | null;
  /** At most a few of its places, current ones first. */
  readonly places: readonly Pick<PlaceLine, 'mailbox' | 'folder' | 'uid'>[];
}

/** Nobody needs to read more places of one message. */
const PLACES_SHOWN = 3;

const MESSAGE = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select(['id', 'subject']).where('docid', '=', p.docid),
);
const PLACES = query<{ docid: number; limit: number }>()((db, p) =>
  db
    .selectFrom('places')
    .innerJoin('folders', 'folders.id', 'places.folder_id')
    .innerJoin('mailboxes', 'mailboxes.id', 'folders.mailbox_id')
    .select(['mailboxes.address as mailbox', 'folders.path as folder', 'places.uid'])
    .where('places.docid', '=', p.docid)
    .orderBy('places.to_commit')
    .orderBy('places.id')
    .limit(p.limit),
);
const OPEN_PLACES = query<{ id: Buffer }>()((db, p) =>
  db
    .selectFrom('messages')
    .innerJoin('places', 'places.docid', 'messages.docid')
    .innerJoin('folders', 'folders.id', 'places.folder_id')
    .innerJoin('mailboxes', 'mailboxes.id', 'folders.mailbox_id')
    .select([
      'mailboxes.host',
      'mailboxes.mailbox',
      'folders.path as folder',
      'places.generation',
      'places.uid',
    ])
    .where('messages.id', '=', p.id)
    .where('places.to_commit', 'is', null),
);
const PLACE = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('folders')
    .innerJoin('mailboxes', 'mailboxes.id', 'folders.mailbox_id')
    .select(['mailboxes.address as mailbox', 'folders.path as folder'])
    .where('folders.id', '=', p.folder),
);
const recordsOf = (db: Builder, segment: number) =>
  db
    .selectFrom('records')
    .select(['kind', 'hash', 'docid'])
    .where('segment', '=', segment)
    .orderBy('ordinal');
const BETWEEN_ORDINALS = query<{ segment: number; first: number; last: number; limit: number }>()(
  (db, p) =>
    recordsOf(db, p.segment)
      .where('ordinal', '>=', p.first)
      .where('ordinal', '<=', p.last)
      .limit(p.limit),
);
const BETWEEN_OFFSETS = query<{ segment: number; from: number; end: number; limit: number }>()(
  (db, p) =>
    recordsOf(db, p.segment)
      .where('offset', '>=', p.from)
      .where('offset', '<', p.end)
      .limit(p.limit),
);

/** Where records of a segment stand: by ordinals, both included, or by bytes of generation 1. */
export type RecordSpan =
  | { readonly segment: number; readonly first: number; readonly last: number }
  | { readonly segment: number; readonly from: number; readonly end: number };

/** A message or blob that the catalog places in a damaged stretch of the log. */
export interface SpannedRecord {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
  readonly docid: number | null;
}

/** Questions about messages that both a catalog and its double answer. */
export interface Concerns {
  byDocid(docid: number): ConcernedMessage | undefined;
  byId(id: string): ConcernedMessage | undefined;
  /** A place as people know it, for use when the message is unknown. */
  atPlace(folder: number, uid: number): ConcernedMessage | undefined;
  /** What the catalog places in a stretch of the log; a walk over all records, so for damage only. */
  recordsIn(span: RecordSpan, limit: number): SpannedRecord[];
  /** Places at which the origin still showed the message. */
  openPlaces(id: MessageId): Place[];
}

/** Returns a row of `records` as others know it. */
export function spanned(
  connection: Connection,
  { kind, hash, docid }: Pick<Row<'records'>, 'kind' | 'hash' | 'docid'>,
): SpannedRecord {
  return { kind: kind === RECORD_MESSAGE ? 'message' : 'blob', hash: connection.hex(hash), docid };
}

export function concerns(connection: Connection): Concerns {
  const { docidOf } = messageQueries(connection);
  const byDocid = (docid: number): ConcernedMessage | undefined => {
    const row = connection.get(MESSAGE, { docid });
    if (row === undefined) return undefined;
    const places = connection.all(PLACES, { docid, limit: PLACES_SHOWN });
    return { id: connection.hex(row.id), subject: readable(row.subject), places };
  };
  return {
    byDocid,
    byId(id) {
      const docid = docidOf(id);
      return docid === undefined ? undefined : byDocid(docid);
    },
    atPlace(folder, uid) {
      const place = connection.get(PLACE, { folder });
      return place && { id: null, subject: null, places: [{ ...place, uid }] };
    },
    recordsIn(span, limit) {
      const found =
        'first' in span
          ? connection.all(BETWEEN_ORDINALS, { ...span, limit })
          : connection.all(BETWEEN_OFFSETS, { ...span, limit });
      return found.map((row) => spanned(connection, row));
    },
    openPlaces: (id) => connection.all(OPEN_PLACES, { id: Buffer.from(id, 'hex') }),
  };
}
