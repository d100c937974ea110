import type { Fact, FoldedRecord, Position } from '../archive/format.ts';
import { catalogError } from '../core/error-tables.ts';
import type { BlobHash, MessageId, Place } from '../core/types.ts';
import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { fingerprint, type PlaceLine, stableIdKey } from '../mail/identity.ts';
import {
  type Connection,
  catalogFile,
  openForReading,
  RECORD_BLOB,
  RECORD_MESSAGE,
} from './database.ts';
import { toEnvelope } from './fold-places.ts';
import { toPlaceSet, utcDayOf } from './list.ts';
import { messageQueries, readableText } from './messages.ts';
import { ROLE } from './people.ts';
import { type Row as QueryRow, selectBy, sqlQuery } from './query.ts';
import { flagMarks } from './sql.ts';

/** A catalog row that is missing, surplus or different when compared with the log. */
export interface RowDifference {
  readonly table: string;
  readonly difference: 'lacking' | 'surplus' | 'different';
  /** Columns that differ; empty if the whole row is missing or surplus. */
  readonly columns: readonly string[];
  readonly key: Readonly<Record<string, Value>>;
  readonly docid: number | null;
  /** Location of the bytes according to the catalog. Only for `records`. */
  readonly position: { readonly segment: number; readonly ordinal: number } | null;
}

/** Yielded between rows to let other work run during a long comparison. */
export type PauseMarker = 'turn';

/** About 20 ms. */
const ROWS_A_TURN = 4_096;

type Value = string | number | null;
type Row = readonly Value[];

interface Compared {
  readonly table: string;
  /** The first `keys` columns form the key, by which rows are sorted. */
  readonly columns: readonly string[];
  readonly keys: number;
  /** Selects each row as one JSON string: identical for identical rows, and twice as fast to read as columns. */
  readonly sql: string;
  readonly ofKey: string;
}

/**
 * Everything that folding writes. Row numbers are excluded, because a purge uses numbers that a fold of the purged log
 * never allocates. For index data, see `contradictions`.
 */
const COMPARED: readonly Compared[] = [
  select('commits', 'number, time', 1),
  select('mailboxes', 'id, host, mailbox, address, account, from_commit', 1),
  select(
    'folders',
    'id, mailbox_id, path, name, delimiter, special_use, generation, gone_commit',
    1,
  ),
  select('folder_spans', 'folder_id, from_commit, to_commit, path, special_use', 2),
  select('generations', 'folder_id, generation, from_commit, highest_uid, reason, uid_validity', 2),
  select(
    'messages',
    `docid, hex(id), size, date, subject, sender_name, sender_address, message_id, first_commit,
     open_places`,
    1,
  ),
  select(
    'places',
    `folder_id, generation, uid, docid, from_commit, to_commit, first_commit,
     (SELECT flags FROM flag_sets WHERE flag_sets.id = flag_set) AS flags,
     marks, hex(fingerprint), stable_id, date, assumed, held, reason`,
    3,
    'id',
  ),
  select(
    'spans',
    `spans.folder_id AS folder_id, places.generation AS generation, places.uid AS uid,
     spans.from_commit AS from_commit, spans.to_commit AS to_commit, spans.docid AS docid,
     (SELECT flags FROM flag_sets WHERE flag_sets.id = spans.flag_set) AS flags,
     spans.date AS date, resumed, spans.reason AS reason`,
    4,
    'spans.id',
    'spans JOIN places ON places.id = place_id',
  ),
  select(
    'records',
    'kind, hex(hash), size, segment, ordinal, offset, docid',
    2,
    undefined,
    'records',
    'kind, records.hash',
  ),
  select(
    'quarantine',
    `folder_id, generation, uid, from_commit, to_commit, first_commit, position,
     (SELECT flags FROM flag_sets WHERE flag_sets.id = flag_set) AS flags,
     date, size, subject, sender_name, sender_address, message_id, hex(fingerprint), reason,
     detail, hex(kept), acknowledged`,
    4,
    'id',
  ),
  select(
    'certificates',
    `folder_id, commit_number, generation, origin_total, stored, assumed, quarantined, held,
     forgotten, complete, since`,
    2,
  ),
  select(
    'tombstones',
    'hex(id), reason, commit_number',
    1,
    undefined,
    'tombstones',
    'tombstones.id',
  ),
  select('forgotten', 'folder_id, generation, uid, hex(id)', 3),
  select('events', 'commit_number, folder_id, generation, uid, event, detail', 4, 'id'),
  select(
    'meta',
    'id, commit_number, hex(commit_hash), commit_time, orphans, messages, message_bytes',
    1,
  ),
];

/** @param list SQL for the columns; `hex(…)` for a binary column */
function select(
  table: string,
  list: string,
  keys: number,
  tieBreak?: string,
  from = table,
  order?: string,
): Compared {
  const fields = list.split(/,\s+/).map((field) => field.replace(/^hex\((\w+)\)$/, bytes));
  const expressions = fields.map(expressionOf);
  const orderBy = [order ?? expressions.slice(0, keys), tieBreak ?? []].flat().join(', ');
  return {
    table,
    columns: fields.map(nameOf),
    keys,
    sql: `SELECT json_array(${expressions.join(', ')}) FROM ${from} ORDER BY ${orderBy}`,
    ofKey: `SELECT json_array(${expressions.join(', ')}) FROM ${from}
      WHERE ${(order?.split(', ') ?? expressions.slice(0, keys)).map((key) => `${key} = ?`).join(' AND ')}
      ORDER BY ${orderBy}`,
  };
}

/** Returns SQL that converts bytes to hex. A flipped bit can turn a value into text, which plain hex would hide. */
function bytes(_: string, column: string): string {
  return `iif(typeof(${column}) = 'text', hex(${column}) || ' as text', hex(${column})) AS ${column}`;
}

function expressionOf(field: string): string {
  return field.split(' AS ')[0] ?? field;
}

function nameOf(field: string): string {
  return field.split(' AS ').at(-1) ?? field;
}

/**
 * Yields the differences between two catalogs, table by table, in constant memory. Both must be at the same commit.
 * Each is read within its connection's current transaction.
 *
 * @param implied catalog folded from the log
 * @param actual catalog to check
 * @throws `catalog-damaged`
 */
export function* compareRows(
  implied: Connection,
  actual: Connection,
): Generator<RowDifference | PauseMarker, void, undefined> {
  for (const compared of COMPARED) yield* compareTable(compared, implied, actual);
}

function* compareTable(
  compared: Compared,
  implied: Connection,
  actual: Connection,
): Generator<RowDifference | PauseMarker, void, undefined> {
  const impliedRows = implied.pluck<string>(compared.sql);
  const actualRows = actual.pluck<string>(compared.sql);
  try {
    yield* walk(compared, impliedRows, actualRows, actual.file);
  } finally {
    impliedRows.return();
    actualRows.return();
  }
}

/**
 * Reports whether a catalog consists of exactly the folded and settled rows. False does not imply a difference: to look
 * for one, fold everything and use `compareRows`.
 *
 * Settled rows are distinct, because each was found by the position of a different record. Folded rows come from other
 * records and are looked up with all rows of their key. A table with no more rows than were settled and folded
 * therefore contains no others.
 *
 * @param implied catalog folded from the records that were not settled
 * @throws `catalog-damaged`
 */
export function* matchesSettledRows(
  implied: Connection,
  actual: Connection,
  { messages, blobs }: SettledCounts,
): Generator<PauseMarker, boolean, undefined> {
  const settledCounts = new Map([
    ['messages', messages],
    ['places', messages],
    ['records', messages + blobs],
  ]);
  for (const compared of COMPARED) {
    const settledCount = settledCounts.get(compared.table);
    if (settledCount === undefined) {
      for (const found of compareTable(compared, implied, actual)) {
        if (found !== 'turn') return false;
        yield found;
      }
    } else {
      const foldedCount = yield* foundAgain(compared, implied, actual);
      const count = actual.first<number>(`SELECT count(*) FROM ${compared.table}`, []);
      if (foldedCount === undefined || count !== foldedCount + settledCount) return false;
    }
  }
  return true;
}

/** Returns the number of folded rows, or undefined if the catalog has different rows for their keys. */
function* foundAgain(
  { sql, ofKey, columns, keys }: Compared,
  implied: Connection,
  actual: Connection,
): Generator<PauseMarker, number | undefined, undefined> {
  let rows = 0;
  for (const text of implied.pluck<string>(sql)) {
    rows += 1;
    if (rows % ROWS_A_TURN === 0) yield 'turn';
    const key = rowOf(text, implied.file)
      ?.slice(0, keys)
      .map((value, i) => (columns[i] === 'hash' ? Buffer.from(String(value), 'hex') : value));
    if (key === undefined) return undefined;
    const [left, right] = [implied, actual].map((side) => side.column<string>(ofKey, key));
    if (left === undefined || left.length === 0 || left.length !== right?.length) return undefined;
    if (left.some((row, i) => row !== right[i])) return undefined;
  }
  return rows;
}

function* walk(
  compared: Compared,
  impliedRows: Generator<string, void, undefined>,
  actualRows: Generator<string, void, undefined>,
  file: string,
): Generator<RowDifference | PauseMarker, void, undefined> {
  let rows = 0;
  let a = next(impliedRows);
  let b = next(actualRows);
  while (a !== undefined || b !== undefined) {
    rows += 1;
    if (rows % ROWS_A_TURN === 0) yield 'turn';
    if (a === b) {
      a = next(impliedRows);
      b = next(actualRows);
      continue;
    }
    const [wanted, found] = [rowOf(a, file), rowOf(b, file)];
    const order =
      wanted === undefined ? 1 : found === undefined ? -1 : keyOrder(wanted, found, compared.keys);
    if (order < 0 && wanted !== undefined) yield differenceOf(compared, 'lacking', wanted);
    if (order > 0 && found !== undefined) yield differenceOf(compared, 'surplus', found);
    if (order === 0 && wanted !== undefined && found !== undefined) {
      const columns = compared.columns.filter((_, i) => wanted[i] !== found[i]);
      if (columns.length > 0) yield differenceOf(compared, 'different', found, columns);
    }
    if (order <= 0) a = next(impliedRows);
    if (order >= 0) b = next(actualRows);
  }
}

function next(from: Generator<string, void, undefined>): string | undefined {
  const step = from.next();
  return step.done === true ? undefined : step.value;
}

/** @throws `catalog-damaged` */
function rowOf(text: string | undefined, file: string): Row | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Row);
  } catch (error) {
    // The column contains bytes instead of text. SQLite copied them as if they were its own JSON.
    throw catalogError('catalog-damaged', { file, reason: 'bytes where text should be' }, error);
  }
}

/** Compares keys in SQLite's order. Keys are numbers and hex strings, never null. */
function keyOrder(a: Row, b: Row, keys: number): number {
  for (let i = 0; i < keys; i += 1) {
    const [left, right] = [a[i] ?? 0, b[i] ?? 0];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

function differenceOf(
  { table, columns, keys }: Compared,
  difference: RowDifference['difference'],
  row: Row,
  differing: readonly string[] = [],
): RowDifference {
  const field = (name: string): number | null => {
    const value = row[columns.indexOf(name)];
    return typeof value === 'number' ? value : null;
  };
  const [segment, ordinal] = [field('segment'), field('ordinal')];
  return {
    table,
    difference,
    columns: differing,
    key: Object.fromEntries(columns.slice(0, keys).map((name, i) => [name, named(row[i] ?? null)])),
    docid: field('docid'),
    position: segment === null || ordinal === null ? null : { segment, ordinal },
  };
}

/** SQLite's hex() returns uppercase, but hex is lowercase everywhere else. */
function named(value: Value): Value {
  return typeof value === 'string' ? value.toLowerCase() : value;
}

export interface AffectedMessage {
  /** Null if only the place is known. */
  readonly id: MessageId | null;
  readonly subject: string | null;
  /** A few of its places, current ones first. */
  readonly places: readonly Pick<PlaceLine, 'mailbox' | 'folder' | 'uid'>[];
}

const PLACES_SHOWN = 3;

const MESSAGE = selectBy('messages', 'id, subject', 'docid');
const PLACES = sqlQuery<
  { docid: number; limit: number },
  Pick<PlaceLine, 'mailbox' | 'folder' | 'uid'>
>(
  `SELECT b.address AS mailbox, f.path AS folder, p.uid
   FROM places p JOIN folders f ON f.id = p.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
   WHERE p.docid = :docid ORDER BY p.to_commit, p.id LIMIT :limit`,
);
const OPEN_PLACES = sqlQuery<{ id: Buffer }, Place>(
  `SELECT b.host, b.mailbox, f.path AS folder, p.generation, p.uid
   FROM messages m JOIN places p ON p.docid = m.docid JOIN folders f ON f.id = p.folder_id
     JOIN mailboxes b ON b.id = f.mailbox_id
   WHERE m.id = :id AND p.to_commit IS NULL`,
);
const PLACE = sqlQuery<{ folder: number }, Pick<PlaceLine, 'mailbox' | 'folder'>>(
  `SELECT b.address AS mailbox, f.path AS folder
   FROM folders f JOIN mailboxes b ON b.id = f.mailbox_id WHERE f.id = :folder`,
);
type RecordRow = Pick<QueryRow<'records'>, 'kind' | 'hash' | 'docid'>;
const BETWEEN_ORDINALS = sqlQuery<
  { segment: number; first: number; last: number; limit: number },
  RecordRow
>(
  `SELECT kind, hash, docid FROM records WHERE segment = :segment
     AND ordinal >= :first AND ordinal <= :last ORDER BY ordinal LIMIT :limit`,
);
const BETWEEN_OFFSETS = sqlQuery<
  { segment: number; from: number; end: number; limit: number },
  RecordRow
>(
  `SELECT kind, hash, docid FROM records WHERE segment = :segment
     AND "offset" >= :from AND "offset" < :end ORDER BY ordinal LIMIT :limit`,
);

/** A range of records in a segment, given by inclusive ordinals or by offsets in generation 1. */
export type RecordSpan =
  | { readonly segment: number; readonly first: number; readonly last: number }
  | { readonly segment: number; readonly from: number; readonly end: number };

export interface SpannedRecord {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
  readonly docid: number | null;
}

export function toSpannedRecord(
  connection: Connection,
  { kind, hash, docid }: RecordRow,
): SpannedRecord {
  return { kind: kind === RECORD_MESSAGE ? 'message' : 'blob', hash: connection.hex(hash), docid };
}

/** Looks up the messages affected by damage, in the archive's catalog or one folded from the log. */
export type AffectedMessages = ReturnType<typeof affectedMessages>;

export function affectedMessages(connection: Connection) {
  const { docidOf } = messageQueries(connection);
  const byDocid = (docid: number): AffectedMessage | undefined => {
    const row = connection.get(MESSAGE, { docid });
    if (row === undefined) return undefined;
    const places = connection.all(PLACES, { docid, limit: PLACES_SHOWN });
    return { id: connection.hex(row.id), subject: readableText(row.subject), places };
  };
  return {
    byDocid,
    byId(id: string) {
      const docid = docidOf(id);
      return docid === undefined ? undefined : byDocid(docid);
    },
    atPlace(folder: number, uid: number): AffectedMessage | undefined {
      const place = connection.get(PLACE, { folder });
      return place && { id: null, subject: null, places: [{ ...place, uid }] };
    },
    /** Returns the records in a range of the log. Reads all records, so use it only if the log is damaged. */
    recordsIn(span: RecordSpan, limit: number) {
      const found =
        'first' in span
          ? connection.all(BETWEEN_ORDINALS, { ...span, limit })
          : connection.all(BETWEEN_OFFSETS, { ...span, limit });
      return found.map((row) => toSpannedRecord(connection, row));
    },
    /** Returns the places where the service still had the message. */
    openPlaces: (id: MessageId): Place[] =>
      connection.all(OPEN_PLACES, { id: Buffer.from(id, 'hex') }),
  };
}

/** About 20 ms. */
const MESSAGES_A_TURN = 8_192;

type PlaceRow = readonly [docid: number, folder: number, to: number | null];

interface OwnPlace {
  readonly folder_id: number;
  readonly to_commit: number | null;
}

/** Recounts a catalog's rows, and yields messages with a wrong place set and days with wrong totals. */
export function* findMiscountedRows(
  actual: Connection,
): Generator<RowDifference | PauseMarker, void, undefined> {
  const sets = new Map(
    [
      ...actual.values<[number, string]>(
        "SELECT id, current || ' ' || last || ' ' || mailboxes FROM place_sets",
      ),
    ].map(([id, set]) => [id, set]),
  );
  const days = new Map<string, [messages: number, bytes: number]>();
  let steps = 0;
  for (const { docid, size, set, text } of locateMessages(actual)) {
    steps += 1;
    if (steps % MESSAGES_A_TURN === 0) yield 'turn';
    if (sets.get(set) !== text)
      yield { ...ofMessage(docid), difference: 'different', columns: ['place_set'] };
    const key = `${set} ${utcDayOf(docid)}`;
    const entry = days.get(key);
    if (entry === undefined) days.set(key, [1, size]);
    else {
      entry[0] += 1;
      entry[1] += size;
    }
  }
  const counts = actual.values<[number, number, number, number]>(
    'SELECT place_set, day, messages, bytes FROM received_days',
  );
  for (const [set, day, messages, bytes] of counts) {
    const key = `${set} ${day}`;
    const [counted, size] = days.get(key) ?? [];
    days.delete(key);
    if (counted === messages && size === bytes) continue;
    yield { ...ofDay(key), ...(counted === undefined ? SURPLUS : DIFFERENT) };
  }
  for (const key of days.keys()) yield { ...ofDay(key), difference: 'lacking', columns: [] };
}

const SURPLUS = { difference: 'surplus', columns: [] } as const;
const DIFFERENT = { difference: 'different', columns: ['messages', 'bytes'] } as const;

function ofMessage(docid: number) {
  return { table: 'messages', key: { docid }, docid, position: null };
}

function ofDay(key: string) {
  const [set, day] = key.split(' ').map(Number);
  return {
    table: 'received_days',
    key: { place_set: set ?? null, day: day ?? null },
    docid: null,
    position: null,
  };
}

/** Totals that a single statement can recount. The statement selects the columns in this order. */
const SUMS = [
  {
    table: 'commit_changes',
    keys: ['commit_number', 'folder_id'],
    sums: ['came', 'ended'],
    counted: `SELECT commit_number, folder_id, sum(came), sum(ended) FROM (
        SELECT first_commit AS commit_number, folder_id, 1 AS came, 0 AS ended FROM places
        UNION ALL SELECT to_commit, folder_id, 0, 1 FROM places WHERE to_commit IS NOT NULL
        UNION ALL SELECT resumed, folder_id, 1, 0 FROM spans WHERE resumed IS NOT NULL
        UNION ALL SELECT to_commit, folder_id, 0, 1 FROM spans WHERE resumed IS NOT NULL)
      GROUP BY 1, 2`,
  },
  {
    table: 'attachment_types',
    keys: ['type'],
    sums: ['contents', 'bytes'],
    counted: `SELECT type, count(*), sum(size)
      FROM (SELECT DISTINCT hash, type, size FROM attachments) GROUP BY type`,
  },
  {
    table: 'correspondents',
    keys: ['address_id', 'role', 'year', 'mailboxes'],
    sums: ['messages', 'last_docid'],
    counted: [
      [ROLE.sender, 'senders'],
      [ROLE.recipient, 'recipients'],
    ]
      .map(
        ([role, list]) => `SELECT value, ${role},
          CAST(strftime('%Y', docid / ${DOCIDS_PER_SECOND}, 'unixepoch') AS INTEGER), mailboxes,
          count(*), max(docid)
        FROM message_people, json_each(${list}) GROUP BY 1, 2, 3, 4`,
      )
      .join(' UNION ALL '),
  },
] as const;

/** Yields the rows of stored totals that a recount does not confirm. */
export function* findMiscountedSums(actual: Connection): Generator<RowDifference, void, undefined> {
  for (const { table, keys, sums, counted } of SUMS) {
    // Finds rows that only one side has. Two EXCEPTs, one per direction, would count twice.
    const columns = [...keys, ...sums].join(', ');
    const sql = `SELECT max(is_counted), ${columns} FROM (
        SELECT 0 AS is_counted, ${columns} FROM ${table} UNION ALL SELECT 1, * FROM (${counted}))
      GROUP BY ${columns} HAVING min(is_counted) = max(is_counted) ORDER BY 1`;
    for (const [isCounted, ...row] of actual.values<readonly [number, ...Value[]]>(sql)) {
      const key = Object.fromEntries(keys.map((name, i) => [name, row[i] ?? null]));
      const difference = isCounted === 1 ? 'lacking' : 'surplus';
      yield { table, difference, columns: [], key, docid: null, position: null };
    }
  }
}

/** Yields every message with its stored place set and the set implied by its places. */
function* locateMessages(actual: Connection): Generator<{
  readonly docid: number;
  readonly size: number;
  readonly set: number;
  readonly text: string;
}> {
  const mailboxes = new Map(actual.values<[number, number]>('SELECT id, mailbox_id FROM folders'));
  const mailboxOf = (folder: number): number => mailboxes.get(folder) ?? 0;
  const textOf = (rows: readonly OwnPlace[]): string => {
    const { current, last, mailboxes: all } = toPlaceSet(rows, mailboxOf);
    return [current, last, all].map((list) => JSON.stringify(list)).join(' ');
  };
  /** Keyed by folder. Most messages have a single place, which is current. */
  const ofOnePlace = new Map<number, string>();
  const knownTextOf = (rows: readonly OwnPlace[]): string => {
    const [only, extra] = rows;
    if (only === undefined || extra !== undefined || only.to_commit !== null) return textOf(rows);
    const text = ofOnePlace.get(only.folder_id) ?? textOf(rows);
    ofOnePlace.set(only.folder_id, text);
    return text;
  };
  const places = actual.values<PlaceRow>(
    'SELECT docid, folder_id, to_commit FROM places ORDER BY docid',
  );
  try {
    let next = places.next();
    const messages = actual.values<[number, number, number]>(
      'SELECT docid, size, place_set FROM messages ORDER BY docid',
    );
    for (const [docid, size, set] of messages) {
      const rows: OwnPlace[] = [];
      while (next.done !== true && next.value[0] <= docid) {
        if (next.value[0] === docid)
          rows.push({ folder_id: next.value[1], to_commit: next.value[2] });
        next = places.next();
      }
      yield { docid, size, set, text: knownTextOf(rows) };
    }
  } finally {
    places.return();
  }
}

/** A statement that selects only wrong rows. */
interface Rule {
  readonly table: string;
  readonly difference: RowDifference['difference'];
  /** Columns that are wrong; empty if the whole row is missing or surplus. */
  readonly columns: readonly string[];
  /** Selects the docid or null, then the key. */
  readonly sql: string;
  readonly key: string;
}

const PACKED_ANCESTOR_BYTES = 6;

function rule(
  table: string,
  difference: Rule['difference'],
  sql: string,
  more: Partial<Pick<Rule, 'columns' | 'key'>> = {},
): Rule {
  return { table, difference, sql, columns: [], key: 'docid', ...more };
}

const RULES: readonly Rule[] = [
  ...['texts', 'thread_members', 'attachments', 'message_people'].map((table) =>
    rule(
      table,
      'surplus',
      `SELECT docid, docid FROM ${table} WHERE docid NOT IN (SELECT docid FROM messages)`,
    ),
  ),
  ...['texts', 'thread_members', 'message_people'].map((table) =>
    rule(
      table,
      'lacking',
      `SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT docid FROM ${table})`,
    ),
  ),
  rule(
    'msg_fts',
    'lacking',
    'SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT id FROM msg_fts_docsize)',
  ),
  rule(
    'msg_fts',
    'surplus',
    'SELECT id, id FROM msg_fts_docsize WHERE id NOT IN (SELECT docid FROM messages)',
  ),
  rule(
    'thread_members',
    'different',
    `SELECT m.docid, m.docid FROM thread_members m LEFT JOIN thread_nodes n USING (node)
     WHERE n.thread IS NOT m.thread`,
    { columns: ['thread'] },
  ),
  rule(
    'thread_members',
    'different',
    `SELECT docid, docid FROM thread_members WHERE length(ancestors) % ${PACKED_ANCESTOR_BYTES} <> 0`,
    { columns: ['ancestors'] },
  ),
  rule(
    'thread_nodes',
    'surplus',
    'SELECT NULL, node FROM thread_nodes WHERE thread NOT IN (SELECT thread FROM thread_members)',
    { key: 'node' },
  ),
  // Attachment numbers have no gaps, and the index knows which messages have attachments.
  rule(
    'attachments',
    'lacking',
    `SELECT docid, docid FROM attachments WHERE docid IN (SELECT docid FROM messages WHERE extractor > 0)
     GROUP BY docid HAVING max(number) <> count(*)`,
  ),
  rule(
    'attachments',
    'lacking',
    // Without the plus, FTS5 would search for the words once per message.
    `SELECT rowid, rowid FROM msg_fts WHERE msg_fts MATCH 'meta : (zatt OR zinline)'
      AND +rowid IN (SELECT docid FROM messages WHERE extractor > 0)
      AND +rowid NOT IN (SELECT docid FROM attachments)`,
  ),
  rule(
    'addresses',
    'surplus',
    'SELECT NULL, id FROM addresses WHERE id NOT IN (SELECT address_id FROM correspondents)',
    { key: 'id' },
  ),
  rule(
    'addresses',
    'lacking',
    'SELECT NULL, address_id FROM correspondents WHERE address_id NOT IN (SELECT id FROM addresses)',
    { key: 'address_id' },
  ),
  rule(
    'attachment_texts',
    'lacking',
    'SELECT docid, text_id FROM attachments WHERE text_id IS NOT NULL AND text_id NOT IN (SELECT id FROM attachment_texts)',
    { key: 'text_id' },
  ),
  rule(
    'attachment_texts',
    'surplus',
    'SELECT NULL, id FROM attachment_texts WHERE id NOT IN (SELECT text_id FROM attachments WHERE text_id IS NOT NULL)',
    { key: 'id' },
  ),
];

/**
 * Finds contradictions between index tables, such as text without a message. Only a rebuild, which parses every message
 * with the same extractor, can recompute the index from the log. These tables are therefore compared only with each
 * other.
 */
export function* findContradictions(actual: Connection): Generator<RowDifference, void, undefined> {
  for (const { table, difference, columns, key, sql } of RULES) {
    for (const [docid, name] of actual.values<[number | null, number]>(sql)) {
      yield { table, difference, columns, key: { [key]: name }, docid, position: null };
    }
  }
}

/**
 * Messages that need not be folded for a comparison, because nothing has happened to them since they arrived. The
 * catalog contains exactly the expected row in each of `records`, `messages` and `places`.
 */
export interface MatchingRun {
  readonly kind: 'settled';
  /** The place with the highest UID. All places of the run share its folder and generation. */
  readonly place: Place;
  readonly folderId: number;
  readonly messages: number;
  readonly bytes: number;
}

export type ComparedRecord = FoldedRecord | MatchingRun;

export interface SettledCounts {
  readonly messages: number;
  readonly blobs: number;
}

type Arrival = Extract<Fact, { fact: 'appeared' }>;
const BLOB = `SELECT CASE
    WHEN segment = ? AND ordinal = ? AND "offset" = ? AND size = ? AND docid IS NULL THEN 'settled'
    WHEN segment > ? OR segment = ? AND ordinal > ? THEN 'superseded'
  END
  FROM records WHERE kind = ${RECORD_BLOB} AND hash = ?`;

/**
 * Contains a condition for every compared column; a test changes each of them. The place must also be found through the
 * UID index, which syncs use. The plus keeps SQLite from preparing the statement again for each message.
 */
const ARRIVAL = `SELECT places.folder_id
  FROM records CROSS JOIN messages CROSS JOIN places CROSS JOIN flag_sets
  WHERE records.kind = ${RECORD_MESSAGE} AND records.hash = +? AND records.size = +?
    AND records.segment = +? AND records.ordinal = +? AND records."offset" = +? AND records.docid = +?
    AND messages.docid = records.docid AND messages.id = records.hash AND messages.size = +?
    AND messages.date IS +? AND messages.subject IS +? AND messages.sender_name IS +?
    AND messages.sender_address IS +? AND messages.message_id IS +? AND messages.first_commit = +?
    AND messages.open_places = 1
    AND places.docid = records.docid AND places.generation = +? AND places.uid = +?
    AND places.from_commit = messages.first_commit AND places.to_commit IS NULL
    AND places.first_commit = messages.first_commit AND places.marks = +? AND places.fingerprint = +?
    AND places.stable_id IS +? AND places.date IS NULL AND places.assumed = 0 AND places.held = 0 AND places.reason IS NULL
    AND flag_sets.id = places.flag_set AND flag_sets.flags = +?
    AND (
      SELECT count(*) = 1 AND min(same.id) = places.id FROM places same
      WHERE same.folder_id = places.folder_id AND same.generation = places.generation
        AND same.uid = places.uid)
    AND NOT EXISTS (
      SELECT 1 FROM events
      WHERE events.folder_id = places.folder_id AND events.generation = places.generation
        AND events.uid = places.uid)`;

/**
 * Opens a catalog to look up rows that still match their record exactly.
 *
 * @throws see `openForReading`
 */
export function openSettledRows(dataDir: string) {
  const connection = openForReading(catalogFile(dataDir));
  return {
    /**
     * Reports whether a blob's row refers to this record or a later replacement; undefined for any other row.
     *
     * @throws `catalog-damaged`, `catalog-io`
     */
    blob(
      hash: BlobHash,
      size: number,
      { segment, ordinal, offset }: Position,
    ): 'settled' | 'superseded' | undefined {
      const place = [segment, ordinal, offset, size, segment, segment, ordinal];
      const values = [...place, Buffer.from(hash, 'hex')];
      return connection.first<'settled' | 'superseded' | null>(BLOB, values) ?? undefined;
    },
    /**
     * Returns the folder number of a message that arrived with this fact and has not changed since. Returns undefined
     * if any column of its three rows differs, or if its UID has other rows or events.
     *
     * @param size size of the source according to the record
     * @throws `catalog-damaged`, `catalog-io`
     */
    arrival(
      fact: Arrival,
      size: number,
      { segment, ordinal, offset }: Position,
      commit: number,
    ): number | undefined {
      const { listing, generation, uid, docid } = fact;
      const { date, subject, sender_name, sender_address, message_id } = toEnvelope(listing);
      return connection.first<number>(ARRIVAL, [
        ...[Buffer.from(fact.message, 'hex'), size, segment, ordinal, offset, docid],
        ...[fact.size, date, subject, sender_name, sender_address, message_id, commit],
        ...[generation, uid, flagMarks(listing.flags)],
        ...[
          Buffer.from(fingerprint(listing), 'hex'),
          stableIdKey(listing),
          JSON.stringify(listing.flags),
        ],
      ]);
    },
    /** Runs several lookups against one snapshot of the catalog, which is faster. */
    within: <T>(ask: () => T): T => connection.snapshot(ask),
    close: (): void => connection.close(),
  };
}

export type SettledRows = ReturnType<typeof openSettledRows>;
