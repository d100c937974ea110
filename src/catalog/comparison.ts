import { catalogError } from '../errors/catalog.ts';
import type { Connection } from './connection.ts';
import type { SettledCounts } from './settled-rows.ts';

/** A row that the log implies and the catalog lacks, the other way round, or with other values. */
export interface RowDifference {
  readonly table: string;
  readonly difference: 'lacking' | 'surplus' | 'different';
  /** Columns that differ; empty where the whole row is lacking or surplus. */
  readonly columns: readonly string[];
  /** The columns that name the row, with their values. */
  readonly key: Readonly<Record<string, Value>>;
  /** The message concerned, where the row is about one. */
  readonly docid: number | null;
  /** For `records`: where the catalog says the bytes are. */
  readonly position: { readonly segment: number; readonly ordinal: number } | null;
}

/** Comes between rows now and then: a long comparison is no reason for everything else to wait. */
export type Turn = 'turn';

/** Rows of both sides between turns: about 20 ms. */
const ROWS_A_TURN = 4_096;

type Value = string | number | null;
type Row = readonly Value[];

interface Compared {
  readonly table: string;
  /** The first `keys` of them name the row and are what the rows are ordered by. */
  readonly columns: readonly string[];
  readonly keys: number;
  /** Gives each row as one JSON list: equal rows are equal texts, and one text is read in half the time of its columns. */
  readonly sql: string;
  /** The same for the rows of one key. */
  readonly ofKey: string;
}

/**
 * What is compared: everything that folding writes, by what it means. Row numbers of our own are left out, since a
 * purge that happened takes numbers that a fold of the purged log never hands out; and so is what indexing writes, for which see
 * `contradictions`.
 */
const COMPARED: readonly Compared[] = [
  select('commits', 'number, time', 1),
  select('mailboxes', 'id, host, mailbox, address, from_commit', 1),
  select(
    'folders',
    'id, mailbox_id, path, name, delimiter, special_use, generation, gone_commit',
    1,
  ),
  select('folder_spans', 'folder_id, from_commit, to_commit, path, special_use', 2),
  select('generations', 'folder_id, generation, from_commit, highest_uid, reason', 2),
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
     marks, hex(fingerprint), date, assumed, held, reason`,
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

/** @param list of columns, as SQL; `hex(…)` for one of bytes */
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

/**
 * Returns SQL for a column of bytes in hex. SQLite keeps text in it as well: one flipped bit turns bytes into text, and
 * a lookup by bytes then misses the row. The same hex would hide that.
 */
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
 * Walks two catalogs side by side, table by table in the order of their keys, and yields what differs: memory stays
 * flat. Both must have reached the same commit; each is read in whatever transaction its connection is in.
 *
 * @param implied folded from the log
 * @param grown the catalog that is checked
 * @throws `catalog-damaged`
 */
export function* compareRows(
  implied: Connection,
  grown: Connection,
): Generator<RowDifference | Turn, void, undefined> {
  for (const compared of COMPARED) yield* compareTable(compared, implied, grown);
}

function* compareTable(
  compared: Compared,
  implied: Connection,
  grown: Connection,
): Generator<RowDifference | Turn, void, undefined> {
  const ours = implied.pluck<string>(compared.sql);
  const theirs = grown.pluck<string>(compared.sql);
  try {
    yield* walk(compared, ours, theirs, grown.file);
  } finally {
    ours.return();
    theirs.return();
  }
}

/**
 * Returns whether a catalog has exactly the rows that were folded and those that were found settled before. It need not
 * be true for equal catalogs: where it is false, everything is to be folded and compared by `compareRows`.
 *
 * Settled rows are different rows of the catalog, since each was found by the position of another record. A folded row
 * is none of them: it comes of other records, and every folded row is found in the catalog with all rows of its key. So if
 * a table has no more rows than were settled and folded, it has no others.
 *
 * @param implied folded from all records that were not settled
 * @throws `catalog-damaged`
 */
export function* agreesWithSettled(
  implied: Connection,
  grown: Connection,
  { messages, blobs }: SettledCounts,
): Generator<Turn, boolean, undefined> {
  const settled = new Map([
    ['messages', messages],
    ['places', messages],
    ['records', messages + blobs],
  ]);
  for (const compared of COMPARED) {
    const known = settled.get(compared.table);
    if (known === undefined) {
      for (const found of compareTable(compared, implied, grown)) {
        if (found !== 'turn') return false;
        yield found;
      }
    } else {
      const folded = yield* foundAgain(compared, implied, grown);
      const count = grown.first<number>(`SELECT count(*) FROM ${compared.table}`, []);
      if (folded === undefined || count !== folded + known) return false;
    }
  }
  return true;
}

/** Returns the number of folded rows; undefined if the catalog has other rows of one of their keys. */
function* foundAgain(
  { sql, ofKey, columns, keys }: Compared,
  implied: Connection,
  grown: Connection,
): Generator<Turn, number | undefined, undefined> {
  let rows = 0;
  for (const text of implied.pluck<string>(sql)) {
    rows += 1;
    if (rows % ROWS_A_TURN === 0) yield 'turn';
    const key = rowOf(text, implied.file)
      ?.slice(0, keys)
      .map((value, i) => (columns[i] === 'hash' ? Buffer.from(String(value), 'hex') : value));
    if (key === undefined) return undefined;
    const [ours, theirs] = [implied, grown].map((side) => side.column<string>(ofKey, key));
    if (ours === undefined || ours.length === 0 || ours.length !== theirs?.length) return undefined;
    if (ours.some((row, i) => row !== theirs[i])) return undefined;
  }
  return rows;
}

function* walk(
  compared: Compared,
  ours: Generator<string, void, undefined>,
  theirs: Generator<string, void, undefined>,
  file: string,
): Generator<RowDifference | Turn, void, undefined> {
  let rows = 0;
  let a = next(ours);
  let b = next(theirs);
  while (a !== undefined || b !== undefined) {
    rows += 1;
    if (rows % ROWS_A_TURN === 0) yield 'turn';
    if (a === b) {
      a = next(ours);
      b = next(theirs);
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
    if (order <= 0) a = next(ours);
    if (order >= 0) b = next(theirs);
  }
}

function next(from: Generator<string, void, undefined>): string | undefined {
  const step = from.next();
  return step.done === true ? undefined : step.value;
}

/** @throws `catalog-damaged` */
function rowOf(text: string | undefined, file: string): Row | undefined {
  try {
    // Written by SQLite from values of these types.
    return text === undefined ? undefined : (JSON.parse(text) as Row);
  } catch (error) {
    // Bytes instead of text, which SQLite took for its own JSON and wrote unchanged.
    throw catalogError('catalog-damaged', { file, reason: 'bytes where text should be' }, error);
  }
}

/** Keys are numbers and hexadecimal texts, never null: both order in SQLite as they do here. */
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

/** Hashes as they are written everywhere else; SQLite's hex() gives capitals. */
function named(value: Value): Value {
  return typeof value === 'string' ? value.toLowerCase() : value;
}
