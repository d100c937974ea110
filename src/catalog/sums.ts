import { isDated } from '../mail/docid.ts';
import type { Connection } from './database.ts';
import { DOCIDS_PER_DAY, type PlaceSet } from './list.ts';
import type { SearchNode } from './query-ast.ts';
import type { CountRequest, SearchQueries } from './search.ts';
import { foldersIn, numberList, placeSetsIn, reachedCommit, type Scope } from './sql.ts';

/** What messages are counted by. */
export const DIMENSIONS = [
  'year',
  'month',
  'mailbox',
  'folder',
  'type',
  'from',
  'to',
  'domain',
] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** Messages, their bytes, and how many of them are deleted. */
export interface Sums {
  readonly messages: number;
  readonly bytes: number;
  readonly deleted: number;
}

export function plus(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages + b.messages,
    bytes: a.bytes + b.bytes,
    deleted: a.deleted + b.deleted,
  };
}

/** One row of statistics. */
export interface StatsRow {
  /** `2026`, `2026-03`, an address, a path, a type, or a domain. */
  readonly key: string;
  readonly messages: number;
  /** Bytes of the messages; of a type, those of its distinct contents; null where they are not counted. */
  readonly bytes: number | null;
  /** Null where they are not counted. */
  readonly deleted: number | null;
  /** Of a type: distinct contents. */
  readonly contents?: number;
  /** Of an address or domain: when the last message was received, ISO 8601. */
  readonly last?: string | null;
  /** What a search takes to find exactly these messages; null where the language cannot name them. */
  readonly query: string | null;
}

/** A message among the largest. */
export interface LargeMessage {
  readonly id: string;
  readonly size: number;
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: { readonly name: string; readonly address: string } | null;
}

/** Messages with one Message-ID and different bytes, such as one's own copy and that of a list. */
export interface DuplicateRow {
  readonly messageId: string | null;
  readonly subject: string | null;
  readonly messages: number;
  readonly bytes: number;
  readonly query: string | null;
}

/** What no quotation marks can hold in a query. */
const UNQUOTABLE = /["“”„]/u;

/** Returns a term of a query with its value in quotation marks; null for a value that has some itself. */
export function term(operator: string, value: string): string | null {
  return UNQUOTABLE.test(value) || value === '' ? null : `${operator}:"${value}"`;
}

/** A message that a query finds. */
interface FoundMessage {
  readonly docid: number;
  readonly size: number;
  readonly deleted: boolean;
}

/** Docids that one statement asks about. */
const CHUNK = 5_000;
const SPAN = { start: 0, end: 0 };

/** What a query finds, counted message by message. */
export class Found {
  #docids: readonly number[] | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly search: Pick<SearchQueries, 'foundDocids'>,
    private readonly request: CountRequest,
  ) {}

  /** Returns the messages that the query finds, or those of them that another term finds as well, newest first. */
  messages(term?: SearchNode): FoundMessage[] {
    const docids = term === undefined ? this.#all() : this.#docidsOf(term);
    const state: SearchNode = { kind: 'state', state: 'deleted', span: SPAN };
    const deleted = new Set(this.#docidsOf(...(term === undefined ? [state] : [term, state])));
    const sizes = new Map(
      this.rowsOf<{ docid: number; size: number }>(
        docids,
        'SELECT docid, size FROM messages WHERE docid IN',
      ).map(({ docid, size }) => [docid, size]),
    );
    return docids.map((docid) => ({
      docid,
      size: sizes.get(docid) ?? 0,
      deleted: deleted.has(docid),
    }));
  }

  sums(term?: SearchNode): Sums {
    return sumsOf(this.messages(term));
  }

  /** All rows that a statement gives of the messages; it ends before the list of their docids. */
  rows<R>(sql: string): R[] {
    return this.rowsOf<R>(this.#all(), sql);
  }

  rowsOf<R>(docids: readonly number[], sql: string): R[] {
    const rows: R[] = [];
    for (let at = 0; at < docids.length; at += CHUNK) {
      const list = JSON.stringify(docids.slice(at, at + CHUNK));
      for (const row of this.connection.text<R>(`${sql} (SELECT value FROM json_each(?))`, [list]))
        rows.push(row);
    }
    return rows;
  }

  #all(): readonly number[] {
    this.#docids ??= [...this.search.foundDocids(this.request)];
    return this.#docids;
  }

  #docidsOf(...terms: readonly SearchNode[]): number[] {
    const node: SearchNode = { kind: 'and', nodes: [this.request.node, ...terms], span: SPAN };
    return [...this.search.foundDocids({ ...this.request, node })];
  }
}

export function sumsOf(messages: readonly FoundMessage[]): Sums {
  return {
    messages: messages.length,
    bytes: messages.reduce((sum, { size }) => sum + size, 0),
    deleted: messages.filter(({ deleted }) => deleted).length,
  };
}

/** Returns a term that names a folder, mailbox or type. */
export function named(kind: 'folder' | 'mailbox' | 'mime', value: string): SearchNode {
  return { kind, value, span: SPAN };
}

/** Returns a query that finds everything. */
export function everything(): SearchNode {
  return { kind: 'all', span: SPAN };
}

/** Which messages a chart counts. */
export interface ChartFilter {
  /** What the reader may know; null for all. */
  readonly scope: Scope | null;
  /** Whether a message counts that is or was in these mailboxes, by their numbers; null where all do. */
  readonly fits: ((mailboxes: readonly number[]) => boolean) | null;
}

/** A set of places that a chart counts. */
export interface CountedSet extends PlaceSet {
  readonly id: number;
  /** Without a current place, within the scope. */
  readonly deleted: boolean;
}

interface Row {
  readonly id: number;
  readonly current: string;
  readonly last: string;
  readonly mailboxes: string;
}

/** Returns the sets of places that a filter lets through, by their numbers. */
export function countedSets(
  connection: Connection,
  { scope, fits }: ChartFilter,
): ReadonlyMap<number, CountedSet> {
  const where = scope === null ? '1' : `id IN ${placeSetsIn(scope)}`;
  const rows = connection.text<Row>(
    `SELECT id, current, last, mailboxes FROM place_sets WHERE ${where}`,
    [],
  );
  const ours =
    scope === null
      ? null
      : new Set(
          connection.column<number>(`SELECT id FROM folders WHERE id IN ${foldersIn(scope)}`, []),
        );
  const sets = new Map<number, CountedSet>();
  for (const row of rows) {
    const mailboxes = numberList(row.mailboxes, connection.file);
    if (fits?.(mailboxes) === false) continue;
    const current = numberList(row.current, connection.file);
    const last = numberList(row.last, connection.file);
    const deleted = ours === null ? current.length === 0 : !current.some((id) => ours.has(id));
    sets.set(row.id, { id: row.id, current, last, mailboxes, deleted });
  }
  return sets;
}

/** Returns SQL that holds for a row whose set of places counts; sets are few, and their numbers are literals. */
export function isCounted(sets: ReadonlyMap<number, CountedSet>, filter: ChartFilter): string {
  if (filter.scope === null && filter.fits === null) return '1';
  return `place_set IN (${[...sets.keys()].join(', ')})`;
}

/** What was received in one set of places. The arrays have an entry for each of its days. */
interface SetDays {
  /** The number of the set. */
  readonly id: number;
  /** Positions in `ReceivedDays.days`, ascending. */
  readonly at: Uint32Array;
  readonly messages: Float64Array;
  readonly bytes: Float64Array;
}

/** The sums that the fold keeps: messages and bytes by UTC day and set of places. */
interface ReceivedDays {
  /** Days on which anything was received, in days since the epoch, ascending. */
  readonly days: Float64Array;
  readonly sets: readonly SetDays[];
}

/** Sums change with commits only. */
const KEPT = new WeakMap<
  Connection,
  { readonly commit: number; readonly received: ReceivedDays }
>();

/** Sums that are kept from one question to the next, each of 20 bytes; more are read again. */
const MOST_KEPT = 200_000;

interface ReceivedDayRow {
  readonly id: number;
  readonly days: string;
  readonly messages: string;
  readonly bytes: string;
}

/**
 * Returns the sums of the reached commit. There may be a hundred thousand, which as rows are 10 MB and take 100 ms: each
 * question reads them as columns, which are made once for a commit.
 *
 * @throws catalog-damaged
 */
export function receivedDays(connection: Connection): ReceivedDays {
  return connection.snapshot(() => {
    const commit = reachedCommit(connection);
    const kept = KEPT.get(connection);
    if (kept?.commit === commit) return kept.received;
    const received = read(connection);
    const sums = received.sets.reduce((sum, { at }) => sum + at.length, 0);
    if (sums <= MOST_KEPT) KEPT.set(connection, { commit, received });
    else KEPT.delete(connection);
    return received;
  });
}

function read(connection: Connection): ReceivedDays {
  const { file } = connection;
  // A text for each column of a set: rows by themselves take twice as long, and become garbage.
  const rows = connection.text<ReceivedDayRow>(
    `SELECT place_set AS id, json_group_array(day) AS days, json_group_array(messages) AS messages,
       json_group_array(bytes) AS bytes
     FROM received_days GROUP BY place_set`,
    [],
  );
  const read = [...rows].map(({ id, days, messages, bytes }) => ({
    id,
    days: Float64Array.from(numberList(days, file)),
    messages: Float64Array.from(numberList(messages, file)),
    bytes: Float64Array.from(numberList(bytes, file)),
  }));
  const days = Float64Array.from(new Set(read.flatMap((set) => [...set.days]))).sort();
  const positions = new Map([...days].map((day, position) => [day, position]));
  const sets = read.map(({ id, days, messages, bytes }) => {
    const at = Uint32Array.from(days, (day) => positions.get(day) ?? 0);
    return { id, at, messages, bytes };
  });
  return { days, sets };
}

interface KeptSumRow {
  readonly place_set: number;
  readonly messages: number;
  readonly bytes: number;
}

/** The sums that the fold keeps, of the sets of places that one question counts. */
export class KeptSums {
  readonly #sets: ReadonlyMap<number, PlaceSet>;
  readonly #deleted: ReadonlySet<number>;
  readonly #received: ReceivedDays;
  /** The sums of all days before each of `#received`, and of all days behind the last. */
  readonly #messages: Float64Array;
  readonly #bytes: Float64Array;
  readonly #deletedMessages: Float64Array;

  /** @param fits which sets of places count; all where it is not given */
  constructor(
    private readonly connection: Connection,
    private readonly scope: Scope | null,
    fits: (set: PlaceSet, isDeleted: boolean) => boolean = () => true,
  ) {
    const where = this.#among('id');
    this.#deleted = new Set(
      connection.column<number>(
        `SELECT id FROM place_sets WHERE ${where} AND NOT EXISTS (
           SELECT 1 FROM json_each(current)${scope === null ? '' : ` WHERE value IN ${foldersIn(scope)}`})`,
        [],
      ),
    );
    const sets = new Map<number, PlaceSet>();
    for (const { id, current, last, mailboxes } of connection.text<{
      id: number;
      current: string;
      last: string;
      mailboxes: string;
    }>(`SELECT id, current, last, mailboxes FROM place_sets WHERE ${where}`, [])) {
      const set = {
        current: numberList(current, connection.file),
        last: numberList(last, connection.file),
        mailboxes: numberList(mailboxes, connection.file),
      };
      if (fits(set, this.#deleted.has(id))) sets.set(id, set);
    }
    this.#sets = sets;
    this.#received = receivedDays(connection);
    const size = this.#received.days.length + 1;
    this.#messages = new Float64Array(size);
    this.#bytes = new Float64Array(size);
    this.#deletedMessages = new Float64Array(size);
    this.#sum();
  }

  /** The days that have messages, ascending; messages without a date are of none. */
  *days(): Generator<number, void, undefined> {
    for (const [position, day] of this.#received.days.entries())
      if (isDated(day * DOCIDS_PER_DAY) && this.#hasMessages(position)) yield day;
  }

  /** From the beginning of the first day that has messages to the end of the last, in docids; undefined for none. */
  range(): { readonly low: number; readonly high: number } | undefined {
    const days = [...this.days()];
    const [first, last] = [days[0], days.at(-1)];
    if (first === undefined || last === undefined) return undefined;
    return { low: first * DOCIDS_PER_DAY, high: (last + 1) * DOCIDS_PER_DAY };
  }

  /** Returns the sums of the messages with docids from `low` (included) to `high` (excluded). */
  between(low: number, high: number): Sums {
    const first = Math.ceil(low / DOCIDS_PER_DAY);
    const end = Math.floor(high / DOCIDS_PER_DAY);
    // Days that only partly belong to the period are counted by docid.
    if (end < first) return this.#counted(low, high);
    const parts = [minus(this.#before(end), this.#before(first))];
    if (low < first * DOCIDS_PER_DAY) parts.push(this.#counted(low, first * DOCIDS_PER_DAY));
    if (high > end * DOCIDS_PER_DAY) parts.push(this.#counted(end * DOCIDS_PER_DAY, high));
    return parts.reduce(plus);
  }

  /** Returns the sums of the messages whose places fit. */
  where(fits: (set: PlaceSet) => boolean): Sums {
    let sums: Sums = NONE;
    for (const { id, messages, bytes } of this.#received.sets) {
      const set = this.#sets.get(id);
      if (set === undefined || !fits(set)) continue;
      const own = { place_set: id, messages: total(messages), bytes: total(bytes) };
      sums = plus(sums, this.#sumsOf(own));
    }
    return sums;
  }

  #among(column: string): string {
    return this.scope === null ? '1' : `${column} IN ${placeSetsIn(this.scope)}`;
  }

  /** Sums each day of the sets that count, and then all days before each. */
  #sum(): void {
    for (const { id, at, messages, bytes } of this.#received.sets) {
      if (!this.#sets.has(id)) continue;
      const isDeleted = this.#deleted.has(id);
      for (let i = 0; i < at.length; i += 1) {
        const behind = (at[i] ?? 0) + 1;
        add(this.#messages, behind, messages[i]);
        add(this.#bytes, behind, bytes[i]);
        if (isDeleted) add(this.#deletedMessages, behind, messages[i]);
      }
    }
    for (const sums of [this.#messages, this.#bytes, this.#deletedMessages])
      for (let position = 1; position < sums.length; position += 1)
        add(sums, position, sums[position - 1]);
  }

  #hasMessages(position: number): boolean {
    return (this.#messages[position + 1] ?? 0) > (this.#messages[position] ?? 0);
  }

  /** The sums of all days before one. */
  #before(day: number): Sums {
    const { days } = this.#received;
    let [from, to] = [0, days.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((days[middle] ?? 0) < day) from = middle + 1;
      else to = middle;
    }
    return {
      messages: this.#messages[from] ?? 0,
      bytes: this.#bytes[from] ?? 0,
      deleted: this.#deletedMessages[from] ?? 0,
    };
  }

  #counted(low: number, high: number): Sums {
    const rows = this.connection.text<KeptSumRow>(
      `SELECT place_set, count(*) AS messages, sum(size) AS bytes FROM messages
       WHERE docid >= ? AND docid < ? AND ${this.#among('place_set')} GROUP BY place_set`,
      [BigInt(low), BigInt(high)],
    );
    return [...rows]
      .filter((row) => this.#sets.has(row.place_set))
      .map((row) => this.#sumsOf(row))
      .reduce(plus, NONE);
  }

  #sumsOf({ place_set: set, messages, bytes }: KeptSumRow): Sums {
    return { messages, bytes, deleted: this.#deleted.has(set) ? messages : 0 };
  }
}

function add(sums: Float64Array, position: number, more = 0): void {
  sums[position] = (sums[position] ?? 0) + more;
}

function total(numbers: Float64Array): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}

const NONE: Sums = { messages: 0, bytes: 0, deleted: 0 };

function minus(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages - b.messages,
    bytes: a.bytes - b.bytes,
    deleted: a.deleted - b.deleted,
  };
}
