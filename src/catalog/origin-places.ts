import { sql } from 'kysely';
import type { CountedFlag, MailboxKey, MessageId } from '../core/types.ts';
import { isDated, receivedAt } from '../mail/docid.ts';
import { countBy, selectBy } from './bound-sql.ts';
import type { Connection } from './database.ts';
import type { PlaceQueries } from './list.ts';
import { query } from './query.ts';
import { flagMarks, MARK } from './sql.ts';

/** The service's messages by UID, now or at a commit: the generation in force, with incomplete messages. */

export interface OriginFolder {
  readonly id: number;
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly generation: number;
}

/** The messages of a folder by UID; arrays correspond by index. */
export interface OriginUids {
  readonly uids: Float64Array;
  /** The number of the place's row, or minus the number of the quarantine's row. */
  readonly rows: Float64Array;
  /** Numbers for `PlaceQueries.flags`. */
  readonly flagSets: Uint32Array;
  /** Number of unread messages. */
  readonly unread: number;
}

/** A message in a folder, with references into the log. */
export interface OriginPlace {
  /** Null for an incomplete message. */
  readonly id: string | null;
  readonly folder: number;
  readonly generation: number;
  readonly uid: number;
  /** The commit of its arrival. */
  readonly commit: number;
  readonly docid: number;
  readonly size: number;
  readonly subject: string | null;
  readonly senderName: string | null;
  readonly senderAddress: string | null;
  readonly messageId: string | null;
}

/** Sort and filter keys of messages. */
export interface OriginFacts {
  /** Bytes. */
  readonly size: number;
  /** Received time, milliseconds since the epoch; minus infinity without a date. */
  readonly date: number;
}

/** Messages without a date sort first. */
const NO_DATE = Number.NEGATIVE_INFINITY;
const FOLDER = ['f.id', 's.path', 'f.name', 'f.delimiter', 's.special_use as specialUse'] as const;
const FOLDERS_NOW = query<MailboxKey>()((db, p) =>
  db
    .selectFrom('mailboxes as b')
    .innerJoin('folders as f', 'f.mailbox_id', 'b.id')
    .select(['f.id', 'f.path', 'f.name', 'f.delimiter', 'f.special_use as specialUse'])
    .select('f.generation')
    .where((eb) => eb.and({ 'b.host': p.host, 'b.mailbox': p.mailbox }))
    .where('f.gone_commit', 'is', null)
    .orderBy('f.path')
    .orderBy('f.id'),
);
const FOLDERS_AT = query<MailboxKey & { commit: number }>()((db, p) =>
  db
    .selectFrom('mailboxes as b')
    .innerJoin('folders as f', 'f.mailbox_id', 'b.id')
    .innerJoin('folder_spans as s', 's.folder_id', 'f.id')
    .select(FOLDER)
    .select((eb) =>
      eb
        .selectFrom('generations as g')
        .whereRef('g.folder_id', '=', 'f.id')
        .where('g.from_commit', '<=', p.commit)
        .select((max) => max.fn.coalesce(max.fn.max<number>('g.generation'), max.lit(0)).as('n'))
        .as('generation'),
    )
    .where((eb) => eb.and({ 'b.host': p.host, 'b.mailbox': p.mailbox }))
    .where('s.from_commit', '<=', p.commit)
    .where((eb) => eb.or([eb('s.to_commit', 'is', null), eb('s.to_commit', '>', p.commit)]))
    .orderBy('s.path')
    .orderBy('f.id'),
);

type InFolder = Pick<OriginFolder, 'id' | 'generation'>;
const FOLDER_KEY = 'folder_id, generation';
const IS_UNREAD = `marks & ${MARK.seen} = 0`;

const UID = ['uid', 'flag_set as flagSet'] as const;
const UIDS_NOW = query<InFolder>()((db, p) =>
  db
    .selectFrom('places')
    .select(UID)
    .select('id as row')
    .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
    .where('to_commit', 'is', null)
    .unionAll(
      db
        .selectFrom('quarantine')
        .select(UID)
        .select(sql<number>`-id`.as('row'))
        .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
        .where('to_commit', 'is', null),
    )
    .orderBy('uid'),
);
const UIDS_AT = query<InFolder & { commit: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select(UID)
    .select('id as row')
    .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
    .where('from_commit', '<=', p.commit)
    .where((eb) => eb.or([eb('to_commit', 'is', null), eb('to_commit', '>', p.commit)]))
    .unionAll(
      db
        .selectFrom('spans as s')
        .innerJoin('places as p', 'p.id', 's.place_id')
        .select(['p.uid', 's.flag_set as flagSet', 'p.id as row'])
        .where((eb) => eb.and({ 's.folder_id': p.id, 'p.generation': p.generation }))
        .where('s.from_commit', '<=', p.commit)
        .where('s.to_commit', '>', p.commit),
    )
    .unionAll(
      db
        .selectFrom('quarantine')
        .select(UID)
        .select(sql<number>`-id`.as('row'))
        .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
        .where('from_commit', '<=', p.commit)
        .where((eb) => eb.or([eb('to_commit', 'is', null), eb('to_commit', '>', p.commit)])),
    )
    .orderBy('uid'),
);
const UNREAD_SETS = selectBy('flag_sets', 'id', '', `AND ${IS_UNREAD}`);
const COUNTS = query<InFolder>()((db, p) =>
  db
    .selectFrom('places')
    .select((eb) => [
      eb.fn.countAll<number>().as('messages'),
      eb.fn
        .coalesce(
          eb.fn.sum<number>(eb(eb('marks', '&', eb.lit(MARK.seen)), '=', eb.lit(0))),
          eb.lit(0),
        )
        .as('unread'),
    ])
    .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
    .where('to_commit', 'is', null),
);
const QUARANTINED = selectBy('quarantine', 'flag_set', FOLDER_KEY, 'AND to_commit IS NULL');
const PLACE = query<{ row: number }>()((db, p) =>
  db
    .selectFrom('places as p')
    .innerJoin('messages as m', 'm.docid', 'p.docid')
    .select(['m.id', 'p.folder_id as folder', 'p.generation', 'p.uid', 'p.first_commit as commit'])
    .select(['p.docid', 'm.size', 'm.subject', 'm.sender_name as senderName'])
    .select(['m.sender_address as senderAddress', 'm.message_id as messageId'])
    .where('p.id', '=', p.row),
);
const QUARANTINE = query<{ row: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select(['folder_id as folder', 'generation', 'uid', 'first_commit as commit'])
    .select(['position as docid', 'size', 'subject', 'sender_name as senderName'])
    .select(['sender_address as senderAddress', 'message_id as messageId'])
    .where('id', '=', p.row),
);
const PLACE_FACTS = query<{ row: number }>()((db, p) =>
  db
    .selectFrom('places as p')
    .innerJoin('messages as m', 'm.docid', 'p.docid')
    .select(['m.size', 'p.docid'])
    .select((eb) => eb.fn.coalesce('p.date', 'm.date').as('date'))
    .where('p.id', '=', p.row),
);
const QUARANTINE_FACTS = query<{ row: number }>()((db, p) =>
  db.selectFrom('quarantine').select(['size', 'position as docid', 'date']).where('id', '=', p.row),
);
const PATH_AT = query<{ folder: number; commit: number }>()((db, p) =>
  db
    .selectFrom('folder_spans')
    .select('path')
    .where('folder_id', '=', p.folder)
    .where('from_commit', '<=', p.commit)
    .where((eb) => eb.or([eb('to_commit', 'is', null), eb('to_commit', '>', p.commit)]))
    .limit((eb) => eb.lit(1)),
);

export function originQueries(connection: Connection, { flags }: Pick<PlaceQueries, 'flags'>) {
  const unreadSets = () => new Set(connection.all(UNREAD_SETS, {}).map(({ id }) => id));
  return {
    flags,
    /** Returns the folders of a mailbox, by path; null for the present. */
    folders: ({ host, mailbox }: MailboxKey, commit: number | null) =>
      commit === null
        ? connection.all(FOLDERS_NOW, { host, mailbox })
        : connection
            .all(FOLDERS_AT, { host, mailbox, commit })
            .map((row) => ({ ...row, name: leafOf(row), generation: row.generation ?? 0 })),
    uids({ id, generation }: Pick<OriginFolder, 'id' | 'generation'>, commit: number | null) {
      const found =
        commit === null
          ? connection.all(UIDS_NOW, { id, generation })
          : connection.all(UIDS_AT, { id, generation, commit });
      const unread = unreadSets();
      const uids = new Float64Array(found.length);
      const rows = new Float64Array(found.length);
      const flagSets = new Uint32Array(found.length);
      let count = 0;
      found.forEach(({ uid, row, flagSet }, at) => {
        uids[at] = uid;
        rows[at] = row;
        flagSets[at] = flagSet;
        if (unread.has(flagSet)) count += 1;
      });
      return { uids, rows, flagSets, unread: count };
    },
    /** Counts a folder's messages, and the unread ones, without reading UIDs. */
    counts({ id, generation }: Pick<OriginFolder, 'id' | 'generation'>) {
      const stored = connection.get(COUNTS, { id, generation });
      const kept = connection.all(QUARANTINED, { folder_id: id, generation });
      const unread = kept.length === 0 ? new Set<number>() : unreadSets();
      return {
        messages: (stored?.messages ?? 0) + kept.length,
        unread:
          Number(stored?.unread ?? 0) + kept.filter(({ flag_set: set }) => unread.has(set)).length,
      };
    },
    facts(row: number) {
      const found =
        row > 0
          ? connection.get(PLACE_FACTS, { row })
          : connection.get(QUARANTINE_FACTS, { row: -row });
      if (found === undefined) return { size: 0, date: 0 };
      const date = found.date ?? (isDated(found.docid) ? receivedAt(found.docid) : NO_DATE);
      return { size: found.size, date };
    },
    /**
     * @param row of `OriginUids`. After another commit, it may belong to another message: rows freed by a purge are
     * reused.
     */
    place(row: number) {
      const stored = row > 0 ? connection.get(PLACE, { row }) : undefined;
      const found = row > 0 ? stored : connection.get(QUARANTINE, { row: -row });
      if (found === undefined) return undefined;
      return { ...found, id: stored === undefined ? null : stored.id.toString('hex') };
    },
    /** Returns a folder's path at a commit. */
    pathAt: (folder: number, commit: number) => connection.get(PATH_AT, { folder, commit })?.path,
  };
}

/** Returns the last part of the path, which may differ from the present name. */
function leafOf({ path, delimiter }: Pick<OriginFolder, 'path' | 'delimiter'>): string {
  const cut = delimiter === '' ? -1 : path.lastIndexOf(delimiter);
  return cut < 0 ? path : path.slice(cut + delimiter.length);
}

/** An open place with the data that a new place needs to reuse its bytes. */
export interface PlacedMessage {
  readonly uid: number;
  readonly docid: number;
  readonly id: MessageId;
  /** Size of the raw source in bytes. */
  readonly size: number;
  readonly fingerprint: string;
  /** From the message's first listing: shows whether a UID still belongs to the same message. */
  readonly messageId: string | null;
  /** Received date, milliseconds since the epoch; null if the listing's is invalid. */
  readonly date: number | null;
}

const PLACED = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('places as p')
    .innerJoin('messages as m', 'm.docid', 'p.docid')
    .select((eb) => [
      'p.uid',
      'p.docid',
      'm.id',
      'm.size',
      'p.fingerprint',
      'm.message_id as messageId',
      // A place has its own date only if it differs from the message's.
      eb.fn.coalesce('p.date', 'm.date').as('date'),
    ])
    .where((eb) =>
      eb.and({ 'p.folder_id': p.folder, 'p.generation': p.generation, 'p.uid': p.uid }),
    )
    .where('p.to_commit', 'is', null)
    .limit((eb) => eb.lit(1)),
);
const OPEN_ALIKE = query<{ fingerprint: Buffer; host: string; mailbox: string; before: number }>()(
  (db, p) =>
    db
      .selectFrom('places as p')
      .innerJoin('folders as f', 'f.id', 'p.folder_id')
      .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
      .select('p.id')
      .where('p.fingerprint', '=', p.fingerprint)
      .where('p.to_commit', 'is', null)
      .where((eb) => eb.and({ 'b.host': p.host, 'b.mailbox': p.mailbox }))
      .where('p.first_commit', '<=', p.before)
      .limit((eb) => eb.lit(1)),
);
interface InGeneration {
  readonly folder: number;
  readonly generation: number;
}
/** Rows read at a time: a folder of a million messages needs a million numbers, but not as many row objects. */
const CHUNK = 5_000;
type Stretch = InGeneration & { readonly after: number; readonly limit: number };

const OPEN_UIDS = query<Stretch>()((db, p) =>
  db
    .selectFrom('places')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('uid', '>', p.after)
    .where('to_commit', 'is', null)
    .orderBy('uid')
    .limit(p.limit),
);
const UNREAD = countBy('places', FOLDER_KEY, `AND to_commit IS NULL AND ${IS_UNREAD}`);
const MARKED_UIDS = query<Stretch & { mark: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('uid', '>', p.after)
    .where('to_commit', 'is', null)
    .where((eb) => eb(eb('marks', '&', p.mark), '<>', eb.lit(0)))
    .orderBy('uid')
    .limit(p.limit),
);
const HELD_UIDS = selectBy('places', 'uid', FOLDER_KEY, 'AND held = 1');
const QUARANTINED_UIDS = selectBy(
  'quarantine',
  'uid',
  FOLDER_KEY,
  'AND to_commit IS NULL ORDER BY uid',
);
const FORGOTTEN_UIDS = selectBy('forgotten', 'uid', FOLDER_KEY);

/** Queries of a sync run about places that may have moved. */
export function relinkQueries(connection: Connection) {
  const uids = (which: typeof HELD_UIDS, folder: number, generation: number): number[] =>
    connection.all(which, { folder_id: folder, generation }).map(({ uid }) => uid);
  const inChunks = (read: (stretch: Omit<Stretch, keyof InGeneration>) => { uid: number }[]) => {
    const found: number[] = [];
    for (;;) {
      const rows = read({ after: found[found.length - 1] ?? 0, limit: CHUNK });
      for (const { uid } of rows) found.push(uid);
      if (rows.length < CHUNK) return found;
    }
  };
  const openUids = (folder: number, generation: number): number[] =>
    inChunks((stretch) => connection.all(OPEN_UIDS, { folder, generation, ...stretch }));
  return {
    /** Returns the open place of a UID with its message. Undefined if none is open. */
    placed(folder: number, generation: number, uid: number) {
      const row = connection.get(PLACED, { folder, generation, uid });
      return (
        row && { ...row, id: row.id.toString('hex'), fingerprint: row.fingerprint.toString('hex') }
      );
    },
    /** Returns whether the mailbox has an open place, older than commit `before`, with this fingerprint. */
    isOpenSomewhere: ({ host, mailbox }: MailboxKey, fingerprint: string, before: number) =>
      connection.get(OPEN_ALIKE, {
        fingerprint: Buffer.from(fingerprint, 'hex'),
        host,
        mailbox,
        before,
      }) !== undefined,
    /** Returns the number of open places without `\\Seen`. */
    unread: (folder: number, generation: number) =>
      connection.get(UNREAD, { folder_id: folder, generation })?.n ?? 0,
    /** Returns UIDs of open places with a flag, ascending. */
    uidsFlagged: (folder: number, generation: number, flag: CountedFlag) =>
      inChunks((stretch) =>
        connection.all(MARKED_UIDS, { folder, generation, mark: flagMarks([flag]), ...stretch }),
      ),
    /** Returns UIDs of open places, ascending. */
    openUids,
    /** Returns UIDs of incomplete messages, ascending. */
    quarantinedUids: (folder: number, generation: number) =>
      uids(QUARANTINED_UIDS, folder, generation),
    /** Returns UIDs of forgotten messages at the service, unordered. */
    forgottenUids: (folder: number, generation: number) => uids(FORGOTTEN_UIDS, folder, generation),
    /** Returns UIDs held by the deletion guard, unordered. */
    heldUids: (folder: number, generation: number) => uids(HELD_UIDS, folder, generation),
    /** Returns the UIDs expected at the service: open and not held, incomplete, forgotten. Ascending. */
    expectedUids(folder: number, generation: number) {
      const open = openUids(folder, generation);
      const held = new Set(uids(HELD_UIDS, folder, generation));
      const others = [
        ...uids(QUARANTINED_UIDS, folder, generation),
        ...uids(FORGOTTEN_UIDS, folder, generation),
      ];
      const current = held.size === 0 ? open : open.filter((uid) => !held.has(uid));
      return others.length === 0 ? current : current.concat(others).sort((a, b) => a - b);
    },
  };
}
