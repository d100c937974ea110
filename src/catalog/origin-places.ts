import type { CountedFlag, MailboxKey, MessageId } from '../core/types.ts';
import { hasDate, receivedAt } from '../mail/docid.ts';
import type { Connection } from './database.ts';
import { lastPart } from './folders.ts';
import type { PlaceQueries } from './list.ts';
import { countBy, type Row, selectBy, sqlQuery } from './query.ts';
import { flagMarks, MARK } from './sql.ts';

/** A folder at the service, now or at a commit, with its generation at that time. */
export interface OriginFolder {
  readonly id: number;
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly generation: number;
}

/** The messages in a folder, as parallel arrays. */
export interface OriginUids {
  readonly uids: Float64Array;
  /** Row number of a place, or the negated row number of an incomplete message. */
  readonly rows: Float64Array;
  readonly flagSets: Uint32Array;
  readonly unread: number;
}

/** A message in a folder, with references into the log. */
export interface OriginPlace {
  /** Null for an incomplete message. */
  readonly id: string | null;
  readonly folder: number;
  readonly generation: number;
  readonly uid: number;
  readonly commit: number;
  readonly docid: number;
  readonly size: number;
  readonly subject: string | null;
  readonly senderName: string | null;
  readonly senderAddress: string | null;
  readonly messageId: string | null;
}

export interface OriginFacts {
  /** Bytes. */
  readonly size: number;
  /** When it was received, in milliseconds since the epoch; minus infinity for an undated message. */
  readonly date: number;
}

/** Messages without a date sort first. */
const NO_DATE = Number.NEGATIVE_INFINITY;
type InFolder = Pick<OriginFolder, 'id' | 'generation'>;
type AtCommit = { readonly commit: number };
type UidRow = Pick<Row<'places'>, 'uid' | 'flag_set'> & { readonly row: number };
type FactsRow = Pick<Row<'messages'>, 'size' | 'docid' | 'date'>;

const FOLDER_KEY = 'folder_id, generation';
const IS_UNREAD = `marks & ${MARK.seen} = 0`;
const OPEN_THEN = '(to_commit IS NULL OR to_commit > :commit)';
const FOLDERS_NOW = sqlQuery<MailboxKey, OriginFolder>(
  `SELECT f.id, f.path, f.name, f.delimiter, f.special_use AS specialUse, f.generation
   FROM mailboxes b JOIN folders f ON f.mailbox_id = b.id
   WHERE b.host = :host AND b.mailbox = :mailbox AND f.gone_commit IS NULL
   ORDER BY f.path, f.id`,
);
const FOLDERS_AT = sqlQuery<MailboxKey & AtCommit, OriginFolder>(
  `SELECT f.id, s.path, f.name, f.delimiter, s.special_use AS specialUse,
     (SELECT coalesce(max(g.generation), 0) FROM generations g
      WHERE g.folder_id = f.id AND g.from_commit <= :commit) AS generation
   FROM mailboxes b JOIN folders f ON f.mailbox_id = b.id
     JOIN folder_spans s ON s.folder_id = f.id
   WHERE b.host = :host AND b.mailbox = :mailbox AND s.from_commit <= :commit AND ${OPEN_THEN}
   ORDER BY s.path, f.id`,
);

const UIDS_NOW = sqlQuery<InFolder, UidRow>(
  `SELECT uid, flag_set, id AS "row" FROM places
   WHERE folder_id = :id AND generation = :generation AND to_commit IS NULL
   UNION ALL SELECT uid, flag_set, -id FROM quarantine
   WHERE folder_id = :id AND generation = :generation AND to_commit IS NULL
   ORDER BY uid`,
);
const UIDS_AT = sqlQuery<InFolder & AtCommit, UidRow>(
  `SELECT uid, flag_set, id AS "row" FROM places
   WHERE folder_id = :id AND generation = :generation AND from_commit <= :commit AND ${OPEN_THEN}
   UNION ALL SELECT p.uid, s.flag_set, p.id FROM spans s JOIN places p ON p.id = s.place_id
   WHERE s.folder_id = :id AND p.generation = :generation
     AND s.from_commit <= :commit AND s.to_commit > :commit
   UNION ALL SELECT uid, flag_set, -id FROM quarantine
   WHERE folder_id = :id AND generation = :generation AND from_commit <= :commit AND ${OPEN_THEN}
   ORDER BY uid`,
);
const UNREAD_SETS = selectBy('flag_sets', 'id', '', `AND ${IS_UNREAD}`);
const COUNTS = sqlQuery<InFolder, { messages: number; unread: number }>(
  `SELECT count(*) AS messages, coalesce(sum(${IS_UNREAD}), 0) AS unread FROM places
   WHERE folder_id = :id AND generation = :generation AND to_commit IS NULL`,
);
const QUARANTINED = selectBy('quarantine', 'flag_set', FOLDER_KEY, 'AND to_commit IS NULL');
const PLACE = sqlQuery<{ row: number }, Omit<OriginPlace, 'id'> & { id: Buffer }>(
  `SELECT m.id, p.folder_id AS folder, p.generation, p.uid, p.first_commit AS "commit", p.docid,
     m.size, m.subject, m.sender_name AS senderName, m.sender_address AS senderAddress,
     m.message_id AS messageId
   FROM places p JOIN messages m ON m.docid = p.docid WHERE p.id = :row`,
);
const QUARANTINE = sqlQuery<{ row: number }, Omit<OriginPlace, 'id'>>(
  `SELECT folder_id AS folder, generation, uid, first_commit AS "commit", position AS docid, size,
     subject, sender_name AS senderName, sender_address AS senderAddress, message_id AS messageId
   FROM quarantine WHERE id = :row`,
);
const PLACE_FACTS = sqlQuery<{ row: number }, FactsRow>(
  `SELECT m.size, p.docid, coalesce(p.date, m.date) AS date
   FROM places p JOIN messages m ON m.docid = p.docid WHERE p.id = :row`,
);
const QUARANTINE_FACTS = sqlQuery<{ row: number }, FactsRow>(
  'SELECT size, position AS docid, date FROM quarantine WHERE id = :row',
);
const PATH_AT = sqlQuery<{ folder: number } & AtCommit, { path: string }>(
  `SELECT path FROM folder_spans
   WHERE folder_id = :folder AND from_commit <= :commit AND ${OPEN_THEN} LIMIT 1`,
);

export function originQueries(connection: Connection, { flags }: Pick<PlaceQueries, 'flags'>) {
  const unreadSets = () => new Set(connection.all(UNREAD_SETS, {}).map(({ id }) => id));
  return {
    flags,
    /** Returns a mailbox's folders by path, at a commit or now. */
    folders: ({ host, mailbox }: MailboxKey, commit: number | null) =>
      commit === null
        ? connection.all(FOLDERS_NOW, { host, mailbox })
        : connection
            .all(FOLDERS_AT, { host, mailbox, commit })
            .map((row) => ({ ...row, name: lastPart(row), generation: row.generation })),
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
      found.forEach(({ uid, row, flag_set: flagSet }, at) => {
        uids[at] = uid;
        rows[at] = row;
        flagSets[at] = flagSet;
        if (unread.has(flagSet)) count += 1;
      });
      return { uids, rows, flagSets, unread: count };
    },
    /** Counts a folder's messages without reading their UIDs. */
    counts({ id, generation }: Pick<OriginFolder, 'id' | 'generation'>) {
      const sums = connection.get(COUNTS, { id, generation });
      const rows = connection.all(QUARANTINED, { folder_id: id, generation });
      const unread = rows.length === 0 ? new Set<number>() : unreadSets();
      return {
        messages: (sums?.messages ?? 0) + rows.length,
        unread: (sums?.unread ?? 0) + rows.filter(({ flag_set: set }) => unread.has(set)).length,
      };
    },
    facts(row: number) {
      const found =
        row > 0
          ? connection.get(PLACE_FACTS, { row })
          : connection.get(QUARANTINE_FACTS, { row: -row });
      if (found === undefined) return { size: 0, date: 0 };
      const date = found.date ?? (hasDate(found.docid) ? receivedAt(found.docid) : NO_DATE);
      return { size: found.size, date };
    },
    /** @param row from `OriginUids`; valid until the next commit, because purges free row numbers for reuse */
    place(row: number) {
      const placeRow = row > 0 ? connection.get(PLACE, { row }) : undefined;
      const found = row > 0 ? placeRow : connection.get(QUARANTINE, { row: -row });
      if (found === undefined) return undefined;
      return { ...found, id: placeRow === undefined ? null : placeRow.id.toString('hex') };
    },
    pathAt: (folder: number, commit: number) => connection.get(PATH_AT, { folder, commit })?.path,
  };
}

/** An open place, with the data needed to reuse its bytes for a new place. */
export interface PlacedMessage {
  readonly uid: number;
  readonly docid: number;
  readonly id: MessageId;
  /** Size of the raw source, in bytes. */
  readonly size: number;
  readonly fingerprint: string;
  /** From the first listing of the message. Used to check whether the UID still belongs to it. */
  readonly messageId: string | null;
  /** When it was received, in milliseconds since the epoch; null if the listing's date is invalid. */
  readonly date: number | null;
  /** See `stableIdKey`. */
  readonly stableId: number | null;
  /** Commit of its first appearance at this place. */
  readonly since: number;
}

type PlacedRow = Omit<PlacedMessage, 'id' | 'fingerprint'> & Record<'id' | 'fingerprint', Buffer>;
interface InGeneration {
  readonly folder: number;
  readonly generation: number;
}
const PLACED_COLUMNS = `p.uid, p.docid, m.id, m.size, p.fingerprint, m.message_id AS messageId,
     coalesce(p.date, m.date) AS date, p.stable_id AS stableId, p.first_commit AS since`;
const PLACED = sqlQuery<InGeneration & { uid: number }, PlacedRow>(
  `SELECT ${PLACED_COLUMNS}
   FROM places p JOIN messages m ON m.docid = p.docid
   WHERE p.folder_id = :folder AND p.generation = :generation AND p.uid = :uid
     AND p.to_commit IS NULL LIMIT 1`,
);
const OPEN_ALIKE = sqlQuery<MailboxKey & { fingerprint: Buffer; before: number }, { id: number }>(
  `SELECT p.id FROM places p JOIN folders f ON f.id = p.folder_id
     JOIN mailboxes b ON b.id = f.mailbox_id
   WHERE p.fingerprint = :fingerprint AND p.to_commit IS NULL
     AND b.host = :host AND b.mailbox = :mailbox AND p.first_commit <= :before LIMIT 1`,
);
const IN_MAILBOX = `JOIN folders f ON f.id = p.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
   WHERE b.host = :host AND b.mailbox = :mailbox`;
// Verified places first, then the oldest. A faulty server could give many messages the same id.
const BY_STABLE_ID = sqlQuery<
  MailboxKey & { stableId: number },
  PlacedRow & { generation: number; folder: string }
>(
  `SELECT ${PLACED_COLUMNS}, p.generation, f.path AS folder
   FROM places p JOIN messages m ON m.docid = p.docid ${IN_MAILBOX} AND p.stable_id = :stableId
   ORDER BY p.assumed, p.id LIMIT 16`,
);
const ARRIVED_SINCE = sqlQuery<
  MailboxKey & { stableId: number; docid: number; after: number },
  { n: number }
>(
  `SELECT count(*) AS n FROM places p ${IN_MAILBOX} AND p.stable_id = :stableId
     AND p.docid = :docid AND p.to_commit IS NULL AND p.first_commit > :after`,
);
const UNREAD = countBy('places', FOLDER_KEY, `AND to_commit IS NULL AND ${IS_UNREAD}`);

/** Queries for a sync run about messages that may have moved. */
export function relinkQueries(connection: Connection) {
  /** Reads no row objects, because there can be a million UIDs. */
  const uidsIn = (table: string, rest: string) => (folder: number, generation: number) =>
    connection.column<number>(
      `SELECT uid FROM ${table} WHERE folder_id = ? AND generation = ? ${rest}`,
      [folder, generation],
    );
  const openUids = uidsIn('places', 'AND to_commit IS NULL ORDER BY uid');
  const heldUids = uidsIn('places', 'AND held = 1');
  const quarantinedUids = uidsIn('quarantine', 'AND to_commit IS NULL ORDER BY uid');
  const forgottenUids = uidsIn('forgotten', '');
  return {
    /** Returns a UID's open place, with its message. */
    placed(folder: number, generation: number, uid: number) {
      const row = connection.get(PLACED, { folder, generation, uid });
      return row && inHex(row);
    },
    /** Returns places by the server's id of their message, current or ended, verified ones first. */
    byStableId: ({ host, mailbox }: MailboxKey, stableId: number) =>
      connection.all(BY_STABLE_ID, { host, mailbox, stableId }).map(inHex),
    /** Counts the current places of a message that appeared after a commit under the same stable id. */
    arrivedSince: ({ host, mailbox }: MailboxKey, stableId: number, docid: number, after: number) =>
      connection.get(ARRIVED_SINCE, { host, mailbox, stableId, docid, after })?.n ?? 0,
    /** Reports whether the mailbox has an open place with this fingerprint that is older than the commit `before`. */
    isOpenSomewhere: ({ host, mailbox }: MailboxKey, fingerprint: string, before: number) =>
      connection.get(OPEN_ALIKE, {
        fingerprint: Buffer.from(fingerprint, 'hex'),
        host,
        mailbox,
        before,
      }) !== undefined,
    /** Returns the number of open places without `\Seen`. */
    unread: (folder: number, generation: number) =>
      connection.get(UNREAD, { folder_id: folder, generation })?.n ?? 0,
    uidsFlagged(folder: number, generation: number, flag: CountedFlag) {
      const isFlagged = `marks & ${flagMarks([flag])} <> 0`;
      return uidsIn('places', `AND to_commit IS NULL AND ${isFlagged} ORDER BY uid`)(
        folder,
        generation,
      );
    },
    /** Returns the UIDs of open places, ascending. */
    openUids,
    /** Returns the UIDs of incomplete messages, ascending. */
    quarantinedUids,
    /** Returns the UIDs of purged messages that the service still has. Unordered. */
    forgottenUids,
    /** Returns the UIDs kept by the deletion guard. Unordered. */
    heldUids,
    /** Returns the UIDs expected at the service, ascending: open and not held, incomplete, or purged. */
    expectedUids(folder: number, generation: number) {
      const open = openUids(folder, generation);
      const held = new Set(heldUids(folder, generation));
      const others = [...quarantinedUids(folder, generation), ...forgottenUids(folder, generation)];
      const current = held.size === 0 ? open : open.filter((uid) => !held.has(uid));
      return others.length === 0 ? current : current.concat(others).sort((a, b) => a - b);
    },
  };
}

function inHex<R extends PlacedRow>(row: R) {
  return { ...row, id: row.id.toString('hex'), fingerprint: row.fingerprint.toString('hex') };
}
