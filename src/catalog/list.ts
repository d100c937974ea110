import type { FlagSet, MailboxKey, Place } from '../core/types.ts';
import { DOCIDS_PER_SECOND, docidAt, docidBaseOf } from '../mail/docid.ts';
import type { PlaceLine } from '../mail/identity.ts';
import type { Connection } from './database.ts';
import {
  asList,
  type FolderFilter,
  type FolderName,
  folderNames,
  matchingFolders,
} from './folders.ts';
import { displaySender, readableText } from './messages.ts';
import { type Row, selectBy, sqlQuery } from './query.ts';
import { type Direction, mergeWalks } from './search-sql.ts';
import { commitAt, type Envelope, flagSetRows, isoTime, isVisible, UID, type Uid } from './sql.ts';

interface ListRow
  extends Envelope,
    Pick<Row<'places'>, 'docid' | 'folder_id' | 'generation' | 'uid' | 'flag_set'> {
  readonly id: Buffer | null;
  readonly size: number;
  readonly place_date: number | null;
  readonly first_seen: number;
  readonly ended_at: number | null;
}

/** Docid bounds are half-open. Only queries for a single folder use `folder`. */
interface ListBounds {
  readonly folder: number;
  readonly low: number;
  readonly high: number;
}

const SHOWN = `p.folder_id, p.generation, p.uid, m.size, m.date, m.subject, m.sender_name,
  m.sender_address, m.message_id, seen.time AS first_seen`;

/** Returns the parts of a list query. CROSS joins keep SQLite in docid order, without sorting. */
function armsOf(isInFolder: boolean) {
  const within = (docid: string, folder: string) =>
    `${docid} >= :low AND ${docid} < :high${isInFolder ? ` AND ${folder} = :folder` : ''}`;
  const closedBy = (commit: string) =>
    ['closing.time', `CROSS JOIN commits closing ON closing.number = ${commit}`] as const;
  return {
    places(where: string, isEnded = false) {
      const [time, join] = isEnded ? closedBy('p.to_commit') : ['NULL', ''];
      return `SELECT p.docid AS docid, p.flag_set, p.date AS place_date, m.id, ${SHOWN},
          ${time} AS ended_at
        FROM places p CROSS JOIN messages m CROSS JOIN commits seen ${join}
        WHERE m.docid = p.docid AND seen.number = p.first_commit
          AND ${within('p.docid', 'p.folder_id')} AND ${where}`;
    },
    spans(where: string, isEnded = false) {
      const [time, join] = isEnded ? closedBy('s.to_commit') : ['NULL', ''];
      return `SELECT s.docid AS docid, s.flag_set, s.date AS place_date, m.id, ${SHOWN},
          ${time} AS ended_at
        FROM spans s CROSS JOIN places p CROSS JOIN messages m CROSS JOIN commits seen ${join}
        WHERE p.id = s.place_id AND m.docid = s.docid AND seen.number = p.first_commit
          AND ${within('s.docid', 's.folder_id')} AND ${where}`;
    },
    quarantine: (where: string) => `SELECT q.position AS docid, q.flag_set, NULL AS place_date,
        NULL AS id, q.folder_id, q.generation, q.uid, q.size, q.date, q.subject, q.sender_name,
        q.sender_address, q.message_id, seen.time AS first_seen, NULL AS ended_at
      FROM quarantine q CROSS JOIN commits seen
      WHERE seen.number = q.first_commit AND ${within('q.position', 'q.folder_id')} AND ${where}`,
  };
}

function views(isInFolder: boolean, order: 'ASC' | 'DESC') {
  const { places, spans, quarantine } = armsOf(isInFolder);
  const sorted = (...arms: string[]) => `${arms.join(' UNION ALL ')} ORDER BY docid ${order}`;
  const wasOpen = (row: string) => `${row}.from_commit <= :commit AND ${row}.to_commit > :commit`;
  return {
    current: sqlQuery<ListBounds, ListRow>(
      sorted(places('p.to_commit IS NULL'), quarantine('q.to_commit IS NULL')),
    ),
    asOf: sqlQuery<ListBounds & { commit: number }, ListRow>(
      sorted(
        places('p.to_commit IS NULL AND p.from_commit <= :commit'),
        places(`p.to_commit IS NOT NULL AND ${wasOpen('p')}`),
        spans(wasOpen('s')),
        quarantine('q.from_commit <= :commit AND (q.to_commit IS NULL OR q.to_commit > :commit)'),
      ),
    ),
    held: sqlQuery<ListBounds, ListRow>(sorted(places('p.to_commit IS NULL AND p.held = 1'))),
    deleted: sqlQuery<ListBounds, ListRow>(sorted(places('p.to_commit IS NOT NULL', true))),
    deletedAsOf: sqlQuery<ListBounds & { commit: number }, ListRow>(
      sorted(
        places('p.to_commit IS NOT NULL AND p.to_commit <= :commit', true),
        spans('s.resumed IS NOT NULL AND s.to_commit <= :commit AND s.resumed > :commit', true),
      ),
    ),
  };
}

export const LIST_ROWS = {
  newest: { everywhere: views(false, 'DESC'), inFolder: views(true, 'DESC') },
  oldest: { everywhere: views(false, 'ASC'), inFolder: views(true, 'ASC') },
};

export interface ListFilter extends FolderFilter {
  /** Lists deleted places instead of current ones. */
  readonly deleted?: boolean | undefined;
  /** Lists only places that are missing from the service but kept current by the deletion guard. */
  readonly held?: boolean | undefined;
  /** Milliseconds since the epoch. Lists the archive as it was then. */
  readonly asOf?: number | undefined;
  /** Milliseconds since the epoch. Lists messages received from `from` (inclusive) to `to` (exclusive). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly sort?: ListOrder | undefined;
}

type ListOrder = 'newest' | 'oldest';

export interface ListedPlace {
  readonly line: PlaceLine;
  readonly folder: FolderName;
  readonly generation: number;
  readonly docid: number;
}

/** Above this number of folders, one walk over all places is cheaper than merging one walk per folder. */
const MERGED_FOLDERS = 64;

/**
 * Lists places newest first, then by folder and UID, or in exactly the reverse order. Sorts by the received date of the
 * message rather than of the copy. Holds a read transaction, so the connection cannot write until the list is drained
 * or closed.
 */
export function* listMessages(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  filter: ListFilter,
): Generator<PlaceLine, void, undefined> {
  for (const { line } of listPlaces(connection, places, filter)) yield line;
}

/** Like `list`, but includes the keys that facts use. */
export function* listPlaces(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  filter: ListFilter,
): Generator<ListedPlace, void, undefined> {
  const commit = filter.asOf === undefined ? undefined : commitAt(connection, filter.asOf);
  const names = folderNames(connection, commit);
  const { sort = 'newest' } = filter;
  for (const row of reorder(rows(connection, filter, names, commit), sort)) {
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
  const isLimited = connection.scope !== null;
  if (asList(filter.mailbox).length + asList(filter.folder).length === 0 && !isLimited) {
    yield* open(everywhere, 0);
    return;
  }
  const ids = new Set(matchingFolders([...names.values()], filter).map((name) => name.id));
  if (ids.size <= MERGED_FOLDERS || isLimited) {
    const walks = [...ids].map((folder) => open(inFolder, folder));
    yield* mergeWalks(walks, ({ docid }) => docid, sort);
    return;
  }
  for (const row of open(everywhere, 0)) if (ids.has(row.folder_id)) yield row;
}

/**
 * Sorts the rows of each docid. An index returns them by row number, which differs between the parts of a past list.
 */
function* reorder(source: Iterable<ListRow>, sort: ListOrder): Generator<ListRow, void, undefined> {
  let group: ListRow[] = [];
  for (const row of source) {
    if (group.length > 0 && group[0]?.docid !== row.docid) {
      yield* sortRows(group, sort);
      group = [];
    }
    group.push(row);
  }
  yield* sortRows(group, sort);
}

function sortRows(group: ListRow[], sort: ListOrder): ListRow[] {
  if (group.length < 2) return group;
  const sign = sort === 'newest' ? 1 : -1;
  return group.sort(
    (a, b) => sign * (a.folder_id - b.folder_id || a.generation - b.generation || b.uid - a.uid),
  );
}

function placeLine(row: ListRow, name: FolderName, flags: FlagSet): PlaceLine {
  return {
    id: row.id === null ? null : row.id.toString('hex'),
    mailbox: name.address,
    folder: name.path,
    uid: row.uid,
    flags,
    size: row.size,
    date: isoTime(row.place_date ?? row.date),
    subject: readableText(row.subject),
    from: displaySender(row),
    messageId: row.message_id,
    firstSeen: isoTime(row.first_seen),
    endedAt: isoTime(row.ended_at),
  };
}

/**
 * Converts docids for URLs. A docid's low bits count the messages received in the same second in all mailboxes. A
 * reader limited to some mailboxes therefore gets ranks among the visible messages instead.
 */
export function listPositions(connection: Connection) {
  const { scope } = connection;
  const inSecond = (base: number): number[] =>
    connection.column<number>(
      `SELECT m.docid FROM messages m WHERE m.docid >= ? AND m.docid < ? AND ${isVisible(scope)}
       ORDER BY m.docid`,
      [BigInt(base), BigInt(base + DOCIDS_PER_SECOND)],
    );
  return {
    /** Returns the position for continuing a list after a docid. */
    shown(docid: number, direction: Direction): number {
      if (scope === null) return docid;
      const base = docidBaseOf(docid);
      const docids = inSecond(base);
      // Newest first, the rank of the last message passed. Oldest first, the rank of the last message up to the docid.
      return direction === 'newest'
        ? base + docids.filter((one) => one < docid).length
        : Math.max(0, base + docids.filter((one) => one <= docid).length - 1);
    },
    /** Returns the docid to continue after. Accepts any position. */
    meant(position: number, direction: Direction): number {
      if (scope === null) return position;
      const base = docidBaseOf(position);
      const docid = inSecond(base)[position - base];
      // No message has this rank: newest first, none from this second has been passed; oldest first, all have.
      return docid ?? base + (direction === 'newest' ? DOCIDS_PER_SECOND : DOCIDS_PER_SECOND - 1);
    },
  };
}

export type ListPositions = ReturnType<typeof listPositions>;

/** An open place, for comparison with the service's listing. */
export interface OpenPlace {
  readonly uid: number;
  readonly docid: number;
  readonly flags: FlagSet;
  readonly fingerprint: string;
  readonly assumed: boolean;
  readonly held: boolean;
  readonly since: number;
}

type PlaceState =
  | ({ readonly state: 'open' } & OpenPlace)
  | ({ readonly state: 'ended'; readonly endedCommit: number } & Pick<
      OpenPlace,
      'uid' | 'docid' | 'fingerprint' | 'flags'
    >)
  | { readonly state: 'quarantined'; readonly uid: number; readonly fingerprint: string }
  | { readonly state: 'forgotten'; readonly uid: number };

export interface UnverifiedPlace extends Place {
  readonly id: string;
  readonly docid: number;
  /** When it was matched without being downloaded, in milliseconds since the epoch. */
  readonly since: number;
}

/** Rows per chunk. Reading in chunks leaves no statement open, so the caller can write between rows. */
const CHUNK = 1_000;

const OPENED = 'uid, docid, flag_set, fingerprint, assumed, held, from_commit';
type Opened = Pick<
  Row<'places'>,
  'uid' | 'docid' | 'flag_set' | 'fingerprint' | 'assumed' | 'held' | 'from_commit'
>;
const OPEN = sqlQuery<Omit<Uid, 'uid'> & { after: number; last: number; limit: number }, Opened>(
  `SELECT ${OPENED} FROM places WHERE folder_id = :folder_id AND generation = :generation
     AND uid > :after AND uid <= :last AND to_commit IS NULL ORDER BY uid LIMIT :limit`,
);
const AT = selectBy('places', `${OPENED}, to_commit`, UID, 'ORDER BY id DESC LIMIT 1');
const QUARANTINED_AT = selectBy('quarantine', 'fingerprint', UID, 'AND to_commit IS NULL');
const FORGOTTEN_AT = selectBy('forgotten', 'uid', UID);
const IN_FOLDER = selectBy('places', 'id', 'docid, folder_id', 'LIMIT 1');
const GENERATIONS_OPEN = selectBy(
  'places',
  'generation',
  'folder_id',
  'AND to_commit IS NULL GROUP BY generation',
);
type AssumedRow = Place & { docid: number; id: Buffer; time: number };
const ASSUMED = sqlQuery<MailboxKey & { before: number; limit: number }, AssumedRow>(
  `SELECT b.host, b.mailbox, f.path AS folder, p.generation, p.uid, p.docid, m.id, t.time
   FROM places p JOIN folders f ON f.id = p.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
     JOIN messages m ON m.docid = p.docid JOIN commits t ON t.number = p.first_commit
   WHERE p.assumed = 1 AND p.to_commit IS NULL AND b.host = :host AND b.mailbox = :mailbox
     AND p.first_commit <= :before
   ORDER BY p.from_commit, p.id LIMIT :limit`,
);

export function placeQueries(connection: Connection) {
  const sets = new Map<number, FlagSet>();
  const flags = (id: number): FlagSet => {
    if (!sets.has(id)) for (const set of flagSetRows(connection)) sets.set(set.id, set.flags);
    return sets.get(id) ?? [];
  };
  const toPlace = (row: Opened): OpenPlace => ({
    uid: row.uid,
    docid: row.docid,
    flags: flags(row.flag_set),
    fingerprint: row.fingerprint.toString('hex'),
    assumed: row.assumed === 1,
    held: row.held === 1,
    since: row.from_commit,
  });
  return {
    /** Yields a generation's open places in ascending UID order, from `from` to `to` inclusive. */
    *open({
      folder,
      generation,
      from = 1,
      to = Number.MAX_SAFE_INTEGER,
    }: {
      readonly folder: number;
      readonly generation: number;
      readonly from?: number;
      readonly to?: number;
    }): Iterable<OpenPlace> {
      let after = from - 1;
      for (;;) {
        const rows = connection.all(OPEN, {
          folder_id: folder,
          generation,
          after,
          last: to,
          limit: CHUNK,
        });
        for (const row of rows) {
          after = row.uid;
          yield toPlace(row);
        }
        if (rows.length < CHUNK) return;
      }
    },
    at(folder: number, generation: number, uid: number): PlaceState | undefined {
      const key = { folder_id: folder, generation, uid };
      const quarantined = connection.get(QUARANTINED_AT, key);
      const row = connection.get(AT, key);
      if (row !== undefined && row.to_commit === null) return { state: 'open', ...toPlace(row) };
      if (quarantined !== undefined)
        return { state: 'quarantined', uid, fingerprint: quarantined.fingerprint.toString('hex') };
      if (connection.get(FORGOTTEN_AT, key) !== undefined) return { state: 'forgotten', uid };
      if (row === undefined || row.to_commit === null) return undefined;
      return {
        state: 'ended',
        uid,
        docid: row.docid,
        fingerprint: row.fingerprint.toString('hex'),
        flags: flags(row.flag_set),
        endedCommit: row.to_commit,
      };
    },
    wasIn: (folder: number, docid: number) =>
      connection.get(IN_FOLDER, { folder_id: folder, docid }) !== undefined,
    /** Returns a folder's generations with open places. There are several while the deletion guard keeps old ones. */
    openGenerations: (folder: number) =>
      connection.all(GENERATIONS_OPEN, { folder_id: folder }).map((row) => row.generation),
    /** Returns a mailbox's places that were matched, not downloaded, in commits up to `before`, oldest first. */
    assumed: ({ host, mailbox }: MailboxKey, before: number, limit: number) =>
      connection
        .all(ASSUMED, { host, mailbox, before, limit })
        .map(({ id, time, ...place }) => ({ ...place, id: id.toString('hex'), since: time })),
    flags,
  };
}

export type PlaceQueries = ReturnType<typeof placeQueries>;

export const DOCIDS_PER_DAY = DOCIDS_PER_SECOND * 86_400;

/** The folders and mailboxes of a message's places, as ascending numbers. */
export interface PlaceSet {
  readonly current: readonly number[];
  /** The last known folders, if the message has no current place. */
  readonly last: readonly number[];
  /** Includes past mailboxes. */
  readonly mailboxes: readonly number[];
}

/** Returns a docid's UTC day, in days since the epoch. Searches use it as the received day. */
export function utcDayOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_DAY);
}

export function toPlaceSet(
  places: Iterable<{ readonly folder_id: number; readonly to_commit: number | null }>,
  mailboxOf: (folder: number) => number,
): PlaceSet {
  const current = new Set<number>();
  const mailboxes = new Set<number>();
  let last = new Set<number>();
  let lastEnd = -1;
  for (const { folder_id: folder, to_commit: to } of places) {
    mailboxes.add(mailboxOf(folder));
    if (to === null) current.add(folder);
    else if (to > lastEnd) {
      lastEnd = to;
      last = new Set([folder]);
    } else if (to === lastEnd) last.add(folder);
  }
  return {
    current: ascending(current),
    last: current.size > 0 ? [] : ascending(last),
    mailboxes: ascending(mailboxes),
  };
}

function ascending(numbers: ReadonlySet<number>): number[] {
  return [...numbers].sort((a, b) => a - b);
}
