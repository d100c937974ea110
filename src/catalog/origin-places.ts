import { sql } from 'kysely';
import { isDated, receivedAt } from '../mail/docid.ts';
import type { FlagSet, MailboxKey } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { MARK } from './flag-marks.ts';
import type { PlaceQueries } from './places.ts';
import { query } from './query.ts';

/**
 * What the origin showed: the folders of a mailbox and the messages in them by uid, now or at a commit. Only the
 * generation of a folder that was in force then counts; quarantined messages are among them, forgotten ones are not.
 */

/** A folder as the origin showed it. */
export interface OriginFolder {
  readonly id: number;
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly generation: number;
}

/** The messages of a folder in the order of their uids: equal indexes belong together. */
export interface OriginUids {
  readonly uids: Float64Array;
  /** The number of the place's row, or minus the number of the quarantine's row. */
  readonly rows: Float64Array;
  /** Numbers for `PlaceQueries.flags`. */
  readonly flagSets: Uint32Array;
  /** How many are unread. */
  readonly unread: number;
}

/** What the catalog knows of a message in a folder, and where the log tells the rest of it. */
export interface OriginPlace {
  /** Null in quarantine. */
  readonly id: string | null;
  /** The number of its folder. */
  readonly folder: number;
  readonly generation: number;
  readonly uid: number;
  /** The commit in which it came. */
  readonly commit: number;
  readonly docid: number;
  readonly size: number;
  readonly subject: string | null;
  readonly senderName: string | null;
  readonly senderAddress: string | null;
  readonly messageId: string | null;
}

/** What messages can be sorted and narrowed by. */
export interface OriginFacts {
  /** Bytes. */
  readonly size: number;
  /** When it was received, milliseconds since the epoch; minus infinity for a message without a date. */
  readonly date: number;
}

/** The time of messages without a date: before every other. */
const NO_DATE = Number.NEGATIVE_INFINITY;

export interface OriginQueries {
  /** The folders of a mailbox, by path; null asks for those that are there now. */
  folders(mailbox: MailboxKey, commit: number | null): OriginFolder[];
  uids(folder: Pick<OriginFolder, 'id' | 'generation'>, commit: number | null): OriginUids;
  /** Messages of a folder now, and how many of them are unread, without reading their uids. */
  counts(folder: Pick<OriginFolder, 'id' | 'generation'>): {
    readonly messages: number;
    readonly unread: number;
  };
  /** @param row of `OriginUids`. After another commit it may be another message's: rows that a purge freed are reused. */
  place(row: number): OriginPlace | undefined;
  /** Returns the path that a folder had at a commit. */
  pathAt(folder: number, commit: number): string | undefined;
  facts(row: number): OriginFacts;
  flags(set: number): FlagSet;
}

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
const UNREAD_SETS = query()((db) =>
  db
    .selectFrom('flag_sets')
    .select('id')
    .where((eb) => eb(eb('marks', '&', eb.lit(MARK.seen)), '=', eb.lit(0))),
);
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
const QUARANTINED = query<InFolder>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select('flag_set as flagSet')
    .where((eb) => eb.and({ folder_id: p.id, generation: p.generation }))
    .where('to_commit', 'is', null),
);
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

export function originQueries(
  connection: Connection,
  { flags }: Pick<PlaceQueries, 'flags'>,
): OriginQueries {
  const unreadSets = () => new Set(connection.all(UNREAD_SETS, {}).map(({ id }) => id));
  return {
    flags,
    folders: ({ host, mailbox }, commit) =>
      commit === null
        ? connection.all(FOLDERS_NOW, { host, mailbox })
        : connection
            .all(FOLDERS_AT, { host, mailbox, commit })
            .map((row) => ({ ...row, name: leafOf(row), generation: row.generation ?? 0 })),
    uids({ id, generation }, commit) {
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
    counts({ id, generation }) {
      const stored = connection.get(COUNTS, { id, generation });
      const kept = connection.all(QUARANTINED, { id, generation });
      const unread = kept.length === 0 ? new Set<number>() : unreadSets();
      return {
        messages: (stored?.messages ?? 0) + kept.length,
        unread:
          Number(stored?.unread ?? 0) + kept.filter(({ flagSet }) => unread.has(flagSet)).length,
      };
    },
    facts(row) {
      const found =
        row > 0
          ? connection.get(PLACE_FACTS, { row })
          : connection.get(QUARANTINE_FACTS, { row: -row });
      if (found === undefined) return { size: 0, date: 0 };
      const date = found.date ?? (isDated(found.docid) ? receivedAt(found.docid) : NO_DATE);
      return { size: found.size, date };
    },
    place(row) {
      const stored = row > 0 ? connection.get(PLACE, { row }) : undefined;
      const found = row > 0 ? stored : connection.get(QUARANTINE, { row: -row });
      if (found === undefined) return undefined;
      return { ...found, id: stored === undefined ? null : stored.id.toString('hex') };
    },
    pathAt: (folder, commit) => connection.get(PATH_AT, { folder, commit })?.path,
  };
}

/** A folder's path at a commit may have another last part than now. */
function leafOf({ path, delimiter }: Pick<OriginFolder, 'path' | 'delimiter'>): string {
  const cut = delimiter === '' ? -1 : path.lastIndexOf(delimiter);
  return cut < 0 ? path : path.slice(cut + delimiter.length);
}
