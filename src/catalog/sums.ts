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
const DAYS = new WeakMap<
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
function receivedDays(connection: Connection): ReceivedDays {
  return connection.snapshot(() => {
    const commit = reachedCommit(connection);
    const kept = DAYS.get(connection);
    if (kept?.commit === commit) return kept.received;
    const received = read(connection);
    const sums = received.sets.reduce((sum, { at }) => sum + at.length, 0);
    if (sums <= MOST_KEPT) DAYS.set(connection, { commit, received });
    else DAYS.delete(connection);
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

/** Messages and bytes of one set of places: before the first bound, in each period, and from the last bound on. */
interface SetCounts {
  readonly messages: Float64Array;
  readonly bytes: Float64Array;
}

type Count = readonly [set: number, messages: number, bytes: number];

/**
 * What was received in consecutive periods, from the sums that the fold keeps. These are of UTC days; where a period
 * begins within a day, the messages of that day are counted by docid.
 */
export class Received {
  readonly sets: ReadonlyMap<number, CountedSet>;
  readonly #counts = new Map<number, SetCounts>();
  readonly #periods: number;
  #bySet: (readonly [CountedSet, Sums])[] | undefined;

  /** @param bounds docids, ascending: the first of each period, and behind the last period */
  constructor(
    private readonly connection: Connection,
    private readonly filter: ChartFilter,
    private readonly bounds: readonly number[],
  ) {
    this.sets = countedSets(connection, filter);
    // One before the first bound, one behind each.
    this.#periods = bounds.length + 1;
    this.#addDays();
    this.#split();
  }

  /** Returns the sums of each period, of the sets that `fits`. */
  of(fits: (set: CountedSet) => boolean): Sums[] {
    return this.#sums(fits).slice(1, -1);
  }

  /** Returns the sums of everything before the first period. */
  before(fits: (set: CountedSet) => boolean): Sums {
    return this.#sums(fits)[0] ?? NONE;
  }

  /** Returns the sums of all times. */
  all(fits: (set: CountedSet) => boolean): Sums {
    let sums: Sums = NONE;
    for (const [set, own] of this.bySet()) if (fits(set)) sums = plus(sums, own);
    return sums;
  }

  /** Returns the sums of all times, set by set. */
  bySet(): readonly (readonly [set: CountedSet, sums: Sums])[] {
    this.#bySet ??= [...this.#counts].flatMap(([id, counts]) => {
      const set = this.sets.get(id);
      if (set === undefined) return [];
      const [messages, bytes] = [total(counts.messages), total(counts.bytes)];
      return [[set, { messages, bytes, deleted: set.deleted ? messages : 0 }] as const];
    });
    return this.#bySet;
  }

  #addDays(): void {
    const { days, sets } = receivedDays(this.connection);
    const periods = Uint32Array.from(days, (day) => this.#periodOf(day * DOCIDS_PER_DAY));
    for (const { id, at, messages, bytes } of sets) {
      if (!this.sets.has(id)) continue;
      const counts = this.#countsOf(id);
      for (let i = 0; i < at.length; i += 1) {
        const period = periods[at[i] ?? 0] ?? 0;
        counts.messages[period] = (counts.messages[period] ?? 0) + (messages[i] ?? 0);
        counts.bytes[period] = (counts.bytes[period] ?? 0) + (bytes[i] ?? 0);
      }
    }
  }

  /** Days whose messages belong to several periods: what the day's sum gave to the first moves to the others. */
  #split(): void {
    for (const [at, low] of this.bounds.entries()) {
      const dayStart = Math.floor(low / DOCIDS_PER_DAY) * DOCIDS_PER_DAY;
      if (low === dayStart) continue;
      const high = Math.min(
        this.bounds[at + 1] ?? dayStart + DOCIDS_PER_DAY,
        dayStart + DOCIDS_PER_DAY,
      );
      const counted = this.connection.values<Count>(
        `SELECT place_set, count(*), sum(size) FROM messages
         WHERE docid >= ${low} AND docid < ${high} AND ${isCounted(this.sets, this.filter)}
         GROUP BY place_set`,
      );
      const first = this.#periodOf(dayStart);
      for (const [set, messages, bytes] of counted) {
        this.#add(at + 1, [set, messages, bytes]);
        this.#add(first, [set, -messages, -bytes]);
      }
    }
  }

  #periodOf(docid: number): number {
    let [from, to] = [0, this.bounds.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.bounds[middle] ?? 0) <= docid) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #add(period: number, [set, messages, bytes]: Count): void {
    const counts = this.#countsOf(set);
    counts.messages[period] = (counts.messages[period] ?? 0) + messages;
    counts.bytes[period] = (counts.bytes[period] ?? 0) + bytes;
  }

  #countsOf(set: number): SetCounts {
    const known = this.#counts.get(set);
    if (known !== undefined) return known;
    const counts = {
      messages: new Float64Array(this.#periods),
      bytes: new Float64Array(this.#periods),
    };
    this.#counts.set(set, counts);
    return counts;
  }

  #sums(fits: (set: CountedSet) => boolean): Sums[] {
    const sums = Array.from({ length: this.#periods }, () => ({ ...NONE }));
    for (const [id, { messages, bytes }] of this.#counts) {
      const set = this.sets.get(id);
      if (set === undefined || !fits(set)) continue;
      let period = 0;
      for (const sum of sums) {
        sum.messages += messages[period] ?? 0;
        sum.bytes += bytes[period] ?? 0;
        if (set.deleted) sum.deleted += messages[period] ?? 0;
        period += 1;
      }
    }
    return sums;
  }
}

function total(numbers: Float64Array): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}

const NONE: Sums = { messages: 0, bytes: 0, deleted: 0 };

/** Everything that the archive holds. */
const EVERYWHERE: ChartFilter = { scope: null, fits: null };

const WHOLE = new WeakMap<Connection, { readonly commit: number; readonly received: Received }>();

/** Returns the sums of everything, of all times, which are kept until the next commit. */
export function receivedInAll(connection: Connection): Received {
  const commit = reachedCommit(connection);
  const kept = WHOLE.get(connection);
  if (kept?.commit === commit) return kept.received;
  const received = new Received(connection, EVERYWHERE, []);
  received.bySet();
  WHOLE.set(connection, { commit, received });
  return received;
}

/** Returns the UTC days on which messages of some sets were received, ascending; messages without a date are of none. */
export function daysReceived(
  connection: Connection,
  filter: ChartFilter,
  fits: (set: CountedSet) => boolean,
): number[] {
  const counted = countedSets(connection, filter);
  const { days, sets } = receivedDays(connection);
  const found = new Set<number>();
  for (const { id, at } of sets) {
    const set = counted.get(id);
    if (set !== undefined && fits(set)) for (const position of at) found.add(position);
  }
  return [...days].filter((day, at) => found.has(at) && isDated(day * DOCIDS_PER_DAY));
}
