import { forgottenId, type Locator, type Position, type RemovedRange } from '../archive/format.ts';
import { folderKey } from '../core/state.ts';
import type { Address, BlobHash, FlagSet, MailboxKey, MessageId, Place } from '../core/types.ts';
import type { AttachmentLine } from '../mail/identity.ts';
import { decodeListedText } from '../mail/listed-text.ts';
import {
  type Connection,
  catalogFile,
  openForReading,
  RECORD_BLOB,
  RECORD_MESSAGE,
} from './database.ts';
import { folderNames, folderQueries } from './folders.ts';
import type { PlaceQueries } from './list.ts';
import { type Row, selectBy, sqlQuery } from './query.ts';
import {
  commitTime,
  ENVELOPE,
  idsByPrefix,
  isInScope,
  isOwnFolder,
  isoTime,
  prefixBounds,
  UID,
} from './sql.ts';

export interface FoundMessage {
  readonly docid: number;
  readonly size: number;
}

/** Lists at most ten candidates, sorted. */
type IdMatch =
  | { readonly match: 'unique'; readonly id: MessageId; readonly docid: number }
  | { readonly match: 'ambiguous'; readonly candidates: readonly MessageId[] }
  | { readonly match: 'none' };

const CANDIDATES = 10;

const RECORD = selectBy('records', 'docid, size, segment, ordinal, offset', 'kind, hash');
const SUMMARY = selectBy('messages', `size, ${ENVELOPE}`, 'docid');
const TOMBSTONE = selectBy('tombstones', 'reason, commit_number', 'id');
// A sync asks for each message, and few archives have one.
const ANY_TOMBSTONE = selectBy('tombstones', 'reason', '', 'LIMIT 1');
type HashRange = { low: Buffer; high: Buffer };
type PurgedRow = Pick<Row<'tombstones'>, 'id' | 'reason'> & { time: number | null };
const PURGED = sqlQuery<HashRange & { limit: number }, PurgedRow>(
  `SELECT t.id, t.reason, c.time FROM tombstones t LEFT JOIN commits c ON c.number = t.commit_number
   WHERE t.id >= :low AND t.id <= :high ORDER BY t.id LIMIT :limit`,
);
const PREFIX_COUNT = sqlQuery<HashRange, { n: number }>(
  `SELECT count(*) AS n FROM records
   WHERE kind = ${RECORD_MESSAGE} AND hash >= :low AND hash <= :high AND docid IS NOT NULL`,
);

/** A scope also hides removed messages, whose mailbox is unknown. */
export function messageQueries(connection: Connection) {
  const { scope } = connection;
  const record = (kind: number, hex: string) =>
    connection.get(RECORD, { kind, hash: Buffer.from(hex, 'hex') });
  const tombstone = (hex: MessageId) =>
    scope === null ? connection.get(TOMBSTONE, { id: Buffer.from(hex, 'hex') }) : undefined;
  const docidOf = (id: MessageId): number | undefined => {
    const docid = record(RECORD_MESSAGE, id)?.docid ?? undefined;
    return docid !== undefined && isInScope(connection, docid) ? docid : undefined;
  };
  const beginning = (prefix: string) => idsByPrefix(connection, prefix, CANDIDATES);
  return {
    /**
     * Returns a message whose bytes are known. A message that lost its bytes to log damage is not found, so that it is
     * stored again.
     */
    find(id: MessageId): FoundMessage | undefined {
      const found = record(RECORD_MESSAGE, id);
      if (found === undefined || found.docid === null || found.segment === null) return undefined;
      const { docid, size } = found;
      return isInScope(connection, docid) ? { docid, size } : undefined;
    },
    /** Returns a message's docid, whether or not its bytes are known. */
    docidOf,
    summary(id: MessageId) {
      const docid = docidOf(id);
      const row = docid === undefined ? undefined : connection.get(SUMMARY, { docid });
      if (row === undefined) return undefined;
      const { size, date, subject, message_id: messageId } = row;
      return {
        size,
        date: isoTime(date),
        subject: readableText(subject),
        from: displaySender(row),
        messageId,
      };
    },
    hasBlob: (hash: BlobHash) => {
      const found = scope === null ? record(RECORD_BLOB, hash) : undefined;
      return found !== undefined && found.segment !== null;
    },
    /** Reports whether a message was purged deliberately and must not be fetched again. */
    isForgotten: (id: MessageId) => tombstone(id) !== undefined,
    purgedFor: (id: MessageId) => tombstone(id)?.reason,
    /** Returns the id of the tombstone of a message that was forgotten in a mailbox or everywhere, or undefined. */
    forgottenAs: (id: MessageId, mailbox: MailboxKey) =>
      connection.get(ANY_TOMBSTONE, {}) === undefined
        ? undefined
        : [id, forgottenId(id, mailbox)].find((one) => tombstone(one)?.reason === 'forgotten'),
    /** Returns up to ten purged messages. `time` is in milliseconds since the epoch. */
    purgedByPrefix(prefix: string) {
      const bounds = prefixBounds(prefix);
      if (bounds === undefined || scope !== null) return [];
      return connection
        .all(PURGED, { ...bounds, limit: CANDIDATES })
        .map(({ id, reason, time }) => ({ id: id.toString('hex'), reason, time }))
        .filter(({ id }) => record(RECORD_MESSAGE, id) === undefined);
    },
    docidsByPrefix: (prefix: string) => beginning(prefix).map(({ docid }) => docid),
    countByPrefix(prefix: string) {
      if (scope !== null) return beginning(prefix).length;
      const bounds = prefixBounds(prefix);
      return bounds === undefined ? 0 : (connection.get(PREFIX_COUNT, bounds)?.n ?? 0);
    },
    /** Finds a message by a prefix of its ID, in hex digits of either case. */
    byPrefix(prefix: string): IdMatch {
      const found = beginning(prefix);
      const [first] = found;
      if (first === undefined) return { match: 'none' };
      if (found.length === 1) return { match: 'unique', ...first };
      return { match: 'ambiguous', candidates: found.map(({ id }) => id) };
    },
  };
}

export function readableText<T extends string | null>(text: T): T | string {
  return text === null ? text : decodeListedText(text);
}

/** Returns the listing's sender for display, or null. */
export function displaySender({
  sender_name: name,
  sender_address: address,
}: Pick<Row<'messages'>, 'sender_name' | 'sender_address'>): Address | null {
  return name === null && address === null
    ? null
    : { name: decodeListedText(name ?? ''), address: address ?? '' };
}

export function locator(connection: Connection): Locator {
  const locate = (kind: number, hex: string): Position | undefined => {
    const found = connection.get(RECORD, { kind, hash: Buffer.from(hex, 'hex') });
    if (found === undefined || found.segment === null) return undefined;
    return { segment: found.segment, ordinal: found.ordinal ?? 0, offset: found.offset ?? 0 };
  };
  return {
    blob: (hash) => locate(RECORD_BLOB, hash),
    message: (id) => locate(RECORD_MESSAGE, id),
  };
}

/** Selects places in a mailbox: all of them, or those that appeared in a range of commits. */
export interface ChosenPlaces extends MailboxKey {
  readonly commits?: RemovedRange['commits'] | undefined;
}

export interface RemovalEffect {
  readonly parts: readonly RemovedRange[];
  readonly places: number;
  /** Messages that have no other place. */
  readonly going: readonly (FoundMessage & { readonly id: MessageId })[];
  readonly staying: number;
  /** Messages that were never fetched in full. */
  readonly incomplete: number;
}

function removable(connection: Connection, chosen: readonly ChosenPlaces[]): RemovalEffect {
  const mailboxes = chosen.flatMap(({ host, mailbox, commits }) => {
    const sql = 'SELECT id FROM mailboxes WHERE host = ? AND mailbox = ?';
    const id = connection.first<number>(sql, [host, mailbox]);
    return id === undefined ? [] : [{ id, host, mailbox, commits }];
  });
  const isChosen = (place: string, folder: string) =>
    mailboxes
      .map(({ id, commits }) => {
        const condition = `${folder}.mailbox_id = ${id}`;
        if (commits === undefined) return condition;
        return `(${condition} AND ${place}.first_commit BETWEEN ${commits[0]} AND ${commits[1]})`;
      })
      .join(' OR ') || '0';
  const places = 'places AS p JOIN folders AS f ON f.id = p.folder_id';
  const others = `SELECT 1 FROM places AS q JOIN folders AS g ON g.id = q.folder_id
    WHERE q.docid = m.docid AND NOT (${isChosen('q', 'g')})`;
  const affected = `m.docid IN (SELECT p.docid FROM ${places} WHERE ${isChosen('p', 'f')})`;
  const count = (sql: string) => connection.first<number>(`SELECT count(*) FROM ${sql}`, []) ?? 0;
  const found = connection.text<{ docid: number; id: Buffer; size: number }>(
    `SELECT m.docid, m.id, m.size FROM messages AS m WHERE ${affected} AND NOT EXISTS (${others})
     ORDER BY m.docid`,
    [],
  );
  const whole = mailboxes.filter(({ commits }) => commits === undefined).map(({ id }) => id);
  return {
    parts: mailboxes.map((one) => partOf(connection, one)),
    places: count(`${places} WHERE ${isChosen('p', 'f')}`),
    going: [...found].map(({ docid, id, size }) => ({ docid, id: id.toString('hex'), size })),
    staying: count(`messages AS m WHERE ${affected} AND EXISTS (${others})`),
    incomplete: count(
      `quarantine AS p JOIN folders AS f ON f.id = p.folder_id
       WHERE p.to_commit IS NULL AND f.mailbox_id IN (${whole.join(', ')})`,
    ),
  };
}

/** Removes the mailbox if nothing else is left in it, and otherwise the folders that become empty. */
function partOf(
  connection: Connection,
  { id, host, mailbox, commits }: ChosenPlaces & { readonly id: number },
): RemovedRange {
  if (commits === undefined) return { host, mailbox };
  const [first, last] = commits;
  const folders = [
    ...connection.text<{ path: string; isEmptied: number }>(
      `SELECT f.path, NOT EXISTS (
         SELECT 1 FROM places AS p
         WHERE p.folder_id = f.id AND p.first_commit NOT BETWEEN ? AND ?) AS isEmptied
       FROM folders AS f WHERE f.mailbox_id = ? ORDER BY f.path`,
      [first, last, id],
    ),
  ];
  if (folders.every(({ isEmptied }) => isEmptied === 1)) return { host, mailbox };
  const emptied = folders.filter(({ isEmptied }) => isEmptied === 1).map(({ path }) => path);
  return { host, mailbox, commits, ...(emptied.length === 0 ? {} : { folders: emptied }) };
}

/** An event concerning a message at a place. `detail` holds the remaining fields of the fact. */
export interface HistoryLine {
  readonly time: string | null;
  readonly commit: number;
  readonly event: string;
  readonly id: MessageId;
  readonly mailbox: string;
  readonly folder: string;
  readonly generation: number;
  readonly uid: number;
  readonly flags?: FlagSet;
  readonly detail?: Readonly<Record<string, unknown>>;
}

type HistoryPlace = Pick<
  Row<'places'>,
  'id' | 'folder_id' | 'generation' | 'uid' | 'from_commit' | 'to_commit' | 'flag_set' | 'reason'
>;
const SPANS = selectBy(
  'spans',
  'from_commit, to_commit, flag_set, resumed, reason',
  'place_id',
  'ORDER BY from_commit, id',
);
const EVENTS = selectBy('events', 'commit_number, event, detail', UID, 'ORDER BY id');
const QUARANTINED = selectBy(
  'quarantine',
  'from_commit, to_commit, reason, detail',
  UID,
  'ORDER BY id',
);
/** Finds a folder's last full sync between two commits, the first inclusive and the second exclusive. */
const COMPARED = sqlQuery<
  { folder: number; generation: number; from: number; to: number },
  { since: string }
>(
  `SELECT since FROM certificates
   WHERE folder_id = :folder AND generation = :generation AND complete = 1
     AND commit_number >= :from AND commit_number < :to ORDER BY commit_number DESC LIMIT 1`,
);

type Step = Pick<HistoryLine, 'commit' | 'event' | 'flags' | 'detail'>;

/** Returns a message's history in commit order. */
export function history(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  docid: number,
  id: MessageId,
): HistoryLine[] {
  const names = folderNames(connection);
  const lines: HistoryLine[] = [];
  for (const { folder, generation, uid, steps } of stepsByPlace(connection, places, docid)) {
    const name = names.get(folder);
    for (const { commit, event, ...more } of steps)
      lines.push({
        time: isoTime(commitTime(connection, commit) ?? null),
        commit,
        event,
        id,
        mailbox: name?.address ?? '',
        folder: name?.path ?? '',
        generation,
        uid,
        ...more,
      });
  }
  return lines.sort((a, b) => a.commit - b.commit);
}

/** The last time at which a message was known to be in a place, before a later commit found it missing. */
export interface LastSeen extends Pick<HistoryLine, 'commit' | 'generation' | 'uid'> {
  /** When it was found missing, in milliseconds since the epoch. */
  readonly found: number;
  /** Start of the last full sync that still found it there, in milliseconds since the epoch. */
  readonly seen: number;
}

/** Returns when a message was last known to be in each ended place. Omits endings not confirmed by a full sync. */
export function lastSeen(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  docid: number,
): LastSeen[] {
  const ends: LastSeen[] = [];
  for (const { folder, generation, uid, steps } of stepsByPlace(connection, places, docid)) {
    let from = 0;
    /** Held places are already missing but still open. */
    let missed: number | null = null;
    for (const { commit, event, detail } of steps.toSorted((a, b) => a.commit - b.commit)) {
      if (event === 'appeared' || event === 'reopened') [from, missed] = [commit, null];
      else if (event === 'held') missed = detail?.held === true ? (missed ?? commit) : null;
      if (event !== 'ended') continue;
      const range = { folder, generation, from, to: missed ?? commit };
      const seen = Date.parse(connection.get(COMPARED, range)?.since ?? '');
      const found = commitTime(connection, commit);
      // Also false for NaN, and if the clock was set back.
      if (found !== undefined && seen < found) ends.push({ commit, generation, uid, found, seen });
    }
  }
  return ends;
}

function* stepsByPlace(connection: Connection, places: Pick<PlaceQueries, 'flags'>, docid: number) {
  const rows = connection.text<HistoryPlace>(
    `SELECT id, folder_id, generation, uid, from_commit, to_commit, flag_set, reason
     FROM places WHERE docid = ? AND ${isOwnFolder('folder_id', connection.scope)} ORDER BY id`,
    [docid],
  );
  for (const place of rows) {
    const { folder_id, generation, uid } = place;
    const key = { folder_id, generation, uid };
    const spans = connection.all(SPANS, { place_id: place.id });
    const last = { ...place, resumed: null };
    const events = connection.all(EVENTS, key).map(
      (event): Step => ({
        commit: event.commit_number,
        event: event.event,
        detail: parseDetail(event.detail),
      }),
    );
    const addDetail = (step: Step): Step => ({
      ...step,
      ...events.find(({ commit, event }) => commit === step.commit && event === step.event),
    });
    const steps: Step[] = [
      ...intervalSteps([...spans, last], places).map(addDetail),
      // The intervals already include these two.
      ...events.filter(({ event }) => event !== 'appeared' && event !== 'reopened'),
      ...connection.all(QUARANTINED, key).map(({ from_commit, reason, detail }) => ({
        commit: from_commit,
        event: 'quarantined',
        detail: { reason, detail },
      })),
    ];
    yield { folder: folder_id, generation, uid, steps };
  }
}

interface Interval {
  readonly from_commit: number;
  readonly to_commit: number | null;
  readonly flag_set: number;
  readonly resumed: number | null;
  readonly reason: string | null;
}

function intervalSteps(
  intervals: readonly Interval[],
  places: Pick<PlaceQueries, 'flags'>,
): Step[] {
  const steps: Step[] = [];
  let previous: Interval | undefined;
  for (const interval of intervals) {
    const event =
      previous === undefined ? 'appeared' : previous.resumed === null ? 'flags' : 'reopened';
    steps.push({ commit: interval.from_commit, event, flags: places.flags(interval.flag_set) });
    const ended =
      interval.resumed !== null || (interval.to_commit !== null && interval === intervals.at(-1));
    if (ended && interval.to_commit !== null)
      steps.push({
        commit: interval.to_commit,
        event: 'ended',
        detail: { reason: interval.reason },
      });
    previous = interval;
  }
  return steps;
}

function parseDetail(text: string): Readonly<Record<string, unknown>> {
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
}

/** A message's place, with its folder's current path. */
export interface PastPlace extends Place {
  readonly folderId: number;
  readonly address: string;
  readonly specialUse: string | null;
  readonly folderGone: boolean;
  /** False if the mailbox has, or had, another folder with this path. A fact about it would be ambiguous. */
  readonly isNameable: boolean;
  /** Milliseconds since the epoch; null while the place is open. */
  readonly endedAt: number | null;
}

const ENDED = selectBy(
  'messages',
  'docid, id, size, subject',
  '',
  'AND open_places = 0 ORDER BY docid DESC',
);
type EndedPlaceRow = Pick<Row<'places'>, 'folder_id' | 'generation' | 'uid' | 'to_commit'> & {
  ended_at: number | null;
};
const ENDED_PLACES = sqlQuery<{ docid: number }, EndedPlaceRow>(
  `SELECT p.folder_id, p.generation, p.uid, p.to_commit, c.time AS ended_at
   FROM places p LEFT JOIN commits c ON c.number = p.to_commit
   WHERE p.docid = :docid ORDER BY p.id`,
);
const CONFIRMED = sqlQuery<object, { folder_id: number; since: string }>(
  'SELECT folder_id, max(since) AS since FROM certificates WHERE complete = 1 GROUP BY folder_id',
);

export function deletedQueries(connection: Connection) {
  const { all } = folderQueries(connection);
  const foldersById = () => {
    const folders = all({ gone: true });
    const namesakes = Map.groupBy(folders, folderKey);
    return new Map(
      folders.map((one) => [
        one.id,
        { ...one, isNameable: namesakes.get(folderKey(one))?.length === 1 },
      ]),
    );
  };
  const placesOf = (docid: number, folders: ReturnType<typeof foldersById>): PastPlace[] =>
    connection.all(ENDED_PLACES, { docid }).map((row) => {
      const found = folders.get(row.folder_id);
      if (found === undefined) throw new Error(`folder ${row.folder_id} has no row`);
      const { host, mailbox, folder, address, specialUse, gone, isNameable } = found;
      return {
        ...{ host, mailbox, folder, generation: row.generation, uid: row.uid },
        folderId: row.folder_id,
        ...{ address, specialUse, folderGone: gone, isNameable },
        endedAt: row.to_commit === null ? null : row.ended_at,
      };
    });
  return {
    /** Yields messages without an open place, newest first. The caller must not write while iterating. */
    *messages() {
      const folders = foldersById();
      for (const { docid, id, size, subject } of connection.rows(ENDED, {})) {
        const places = placesOf(docid, folders);
        // A message that was only ever matched by mistake, without being downloaded, has no place.
        if (places.length > 0) yield { docid, id: id.toString('hex'), size, subject, places };
      }
    },
    removable: (chosen: readonly ChosenPlaces[]) => removable(connection, chosen),
    placesOf: (docid: number) => placesOf(docid, foldersById()),
    /** Returns the start of each folder's last complete reconciliation, which accounts for every UID. */
    confirmed() {
      const rows = connection.all(CONFIRMED, {});
      return new Map(rows.map(({ folder_id, since }) => [folder_id, Date.parse(since)]));
    },
    /** Returns a folder's host and mailbox, separated by NUL. */
    mailboxOf(folder: number) {
      const found = all({ gone: true }).find(({ id }) => id === folder);
      return `${found?.host ?? ''}\0${found?.mailbox ?? ''}`;
    },
  };
}

export type DeletedQueries = ReturnType<typeof deletedQueries>;

/** An incomplete message. Dates and times are milliseconds since the epoch. */
export interface QuarantineEntry extends Place {
  readonly address: string;
  readonly reason: string;
  readonly detail: string;
  /** Hash of the blob with the bytes received. */
  readonly kept: string | null;
  readonly acknowledged: boolean;
  readonly since: number;
  readonly date: number | null;
  readonly size: number;
  readonly subject: string | null;
  readonly messageId: string | null;
}

type OpenRow = Omit<QuarantineEntry, 'kept' | 'acknowledged'> &
  Pick<Row<'quarantine'>, 'kept' | 'acknowledged'>;
const OPEN = sqlQuery<object, OpenRow>(
  `SELECT b.host, b.mailbox, b.address, f.path AS folder, q.generation, q.uid, q.reason, q.detail,
     q.kept, q.acknowledged, first.time AS since, q.date, q.size, q.subject,
     q.message_id AS messageId
   FROM quarantine q JOIN folders f ON f.id = q.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
     JOIN commits first ON first.number = q.first_commit
   WHERE q.to_commit IS NULL ORDER BY q.folder_id, q.generation, q.uid`,
);

const ACKNOWLEDGED = selectBy('quarantine', 'acknowledged', UID, 'AND to_commit IS NULL');

export function quarantineQueries(connection: Connection) {
  return {
    open: (): QuarantineEntry[] =>
      connection.all(OPEN, {}).map(({ kept, acknowledged, ...entry }) => ({
        ...entry,
        subject: readableText(entry.subject),
        kept: kept === null ? null : kept.toString('hex'),
        acknowledged: acknowledged === 1,
      })),
    isAcknowledged: (folder: number, generation: number, uid: number) =>
      connection.get(ACKNOWLEDGED, { folder_id: folder, generation, uid })?.acknowledged === 1,
  };
}

export interface BlobPositions {
  /** Returns the blob's position if any readable record contains it. @throws `catalog-damaged`, `catalog-io` */
  readonly of: (hash: BlobHash) => Position | undefined;
  close(): void;
}

/** @throws see `openForReading` */
export function openBlobPositions(dataDir: string): BlobPositions {
  const connection = openForReading(catalogFile(dataDir));
  return {
    of: locator(connection).blob,
    close: () => connection.close(),
  };
}

const LISTED = selectBy(
  'attachments',
  'number, filename, type, size, inline',
  'docid',
  'ORDER BY number',
);

export function listAttachments(connection: Connection, docid: number): AttachmentLine[] {
  return connection.all(LISTED, { docid }).map(({ number, filename, type, size, inline }) => ({
    number,
    filename,
    contentType: type,
    size,
    inline: inline === 1,
  }));
}
