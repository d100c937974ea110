import { hasDate } from '../mail/docid.ts';
import type { Connection } from './database.ts';
import { DOCIDS_PER_DAY, type PlaceSet } from './list.ts';
import type { SearchNode } from './query-ast.ts';
import type { CountRequest, SearchQueries } from './search.ts';
import { includesScope, isOwnFolder, numberList, reachedCommit, untilCommit } from './sql.ts';

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

export interface Sums {
  readonly messages: number;
  readonly bytes: number;
  readonly deleted: number;
}

export function addSums(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages + b.messages,
    bytes: a.bytes + b.bytes,
    deleted: a.deleted + b.deleted,
  };
}

export interface StatsRow {
  /** `2026`, `2026-03`, an address, a path, a type, or a domain. */
  readonly key: string;
  readonly messages: number;
  /** For a type, the bytes of its distinct attachments; null if not counted. */
  readonly bytes: number | null;
  readonly deleted: number | null;
  /** Only for a type: number of distinct attachments. */
  readonly contents?: number;
  /** Only for an address or domain: when the last message was received, ISO 8601. */
  readonly last?: string | null;
  /** Query that matches exactly these messages; null if the query language cannot express it. */
  readonly query: string | null;
}

export interface LargeMessage {
  readonly id: string;
  readonly size: number;
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: { readonly name: string; readonly address: string } | null;
}

/** Messages with the same Message-ID but different bytes, such as a sent copy and one received from a mailing list. */
export interface DuplicateRow {
  readonly messageId: string | null;
  readonly subject: string | null;
  readonly messages: number;
  readonly bytes: number;
  readonly query: string | null;
}

/** Returns a query term with a quoted value, or null if the value is empty. */
export function quotedTerm(operator: string, value: string): string | null {
  return value === '' ? null : `${operator}:"${value.replaceAll('"', '""')}"`;
}

interface FoundMessage {
  readonly docid: number;
  readonly size: number;
  readonly deleted: boolean;
}

const SPAN = { start: 0, end: 0 };

/** SQL for a list of docids, given as a JSON array. */
export const AMONG = 'IN (SELECT value FROM json_each(?))';

export class MatchingMessages {
  #docids: readonly number[] | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly search: SearchQueries,
    private readonly request: CountRequest,
    docids?: readonly number[],
  ) {
    this.#docids = docids;
  }

  /** Returns the matches, or only those that also match `term`, newest first. */
  messages(term?: SearchNode): FoundMessage[] {
    const terms = term === undefined ? [] : [term];
    const state: SearchNode = { kind: 'state', state: 'deleted', span: SPAN };
    const deleted = new Set(this.#docidsOf(...terms, state));
    const rows = this.connection.text<Omit<FoundMessage, 'deleted'>>(
      `SELECT docid, size FROM messages WHERE docid ${AMONG} ORDER BY docid DESC`,
      [term === undefined ? this.json() : JSON.stringify(this.#docidsOf(term))],
    );
    return [...rows].map((row) => ({ ...row, deleted: deleted.has(row.docid) }));
  }

  sums(term?: SearchNode): Sums {
    return sumMessages(this.messages(term));
  }

  /** Returns the docids of all matches, newest first, as a JSON array. */
  json(): string {
    this.#docids ??= [...this.search.prepare(this.request).docids()];
    return JSON.stringify(this.#docids);
  }

  #docidsOf(...terms: readonly SearchNode[]): number[] {
    const node: SearchNode = { kind: 'and', nodes: [this.request.node, ...terms], span: SPAN };
    return [...this.search.prepare({ ...this.request, node }).docids()];
  }
}

export function sumMessages(messages: readonly FoundMessage[]): Sums {
  return {
    messages: messages.length,
    bytes: messages.reduce((sum, { size }) => sum + size, 0),
    deleted: messages.filter(({ deleted }) => deleted).length,
  };
}

export function named(kind: 'folder' | 'mailbox' | 'mime', value: string): SearchNode {
  return { kind, value, span: SPAN };
}

export function matchAll(): SearchNode {
  return { kind: 'all', span: SPAN };
}

/** Further limits a reader to some mailboxes. */
export interface ChartFilter {
  /** Decides whether to count messages with these past and present mailboxes; null counts all. */
  readonly fits: ((mailboxes: readonly number[]) => boolean) | null;
}

export interface ChartedSet extends PlaceSet {
  readonly id: number;
  /** True if it has no current place in the scope. */
  readonly deleted: boolean;
}

interface Row {
  readonly id: number;
  readonly current: string;
  readonly last: string;
  readonly mailboxes: string;
}

export function countedSets(
  connection: Connection,
  { fits }: ChartFilter,
): ReadonlyMap<number, ChartedSet> {
  const { scope } = connection;
  const rows = connection.text<Row>(
    `SELECT id, current, last, mailboxes FROM place_sets WHERE ${includesScope('mailboxes', scope)}`,
    [],
  );
  const ours =
    scope === null
      ? null
      : new Set(
          connection.column<number>(`SELECT id FROM folders WHERE ${isOwnFolder('id', scope)}`, []),
        );
  const sets = new Map<number, ChartedSet>();
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

/** Returns an SQL condition for rows whose place set is counted. There are few sets, so their numbers are literals. */
export function chartCondition(
  { scope }: Connection,
  { fits }: ChartFilter,
  sets: ReadonlyMap<number, ChartedSet>,
): string {
  return scope === null && fits === null ? '1' : `place_set IN (${[...sets.keys()].join(', ')})`;
}

/** The fold's totals for one place set. The arrays contain one entry per UTC day, in days since the epoch. */
interface SetDays extends Readonly<Record<'days' | 'messages' | 'bytes', readonly number[]>> {
  readonly id: number;
}

/** Totals change only with a commit. */
const DAYS = new WeakMap<
  Connection['db'],
  { readonly commit: number; readonly received: SetDays[] }
>();

/** Maximum number of days to cache, across all sets. */
const MAX_KEPT = 200_000;

/**
 * Returns the totals at the last commit, cached until the next one. Reading 100,000 of them takes 100 ms.
 *
 * @throws catalog-damaged
 */
function receivedDays(connection: Connection): SetDays[] {
  return connection.snapshot(() => {
    const commit = reachedCommit(connection);
    const cached = DAYS.get(connection.db);
    if (cached?.commit === commit) return cached.received;
    // A single JSON text per column: separate rows take twice as long and create garbage.
    const rows = connection.text<{ id: number } & Record<'days' | 'messages' | 'bytes', string>>(
      `SELECT place_set AS id, json_group_array(day) AS days,
         json_group_array(messages) AS messages, json_group_array(bytes) AS bytes
       FROM received_days GROUP BY place_set`,
      [],
    );
    const list = (text: string) => numberList(text, connection.file);
    const received = [...rows].map(({ id, days, messages, bytes }) => ({
      id,
      days: list(days),
      messages: list(messages),
      bytes: list(bytes),
    }));
    const sums = received.reduce((sum, { days }) => sum + days.length, 0);
    if (sums <= MAX_KEPT) DAYS.set(connection.db, { commit, received });
    else DAYS.delete(connection.db);
    return received;
  });
}

type Count = readonly [set: number, messages: number, bytes: number];

/** Counts the ascending numbers that do not exceed `limit`. */
export function countUpTo(numbers: ArrayLike<number>, limit: number): number {
  let [from, to] = [0, numbers.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((numbers[middle] ?? 0) <= limit) from = middle + 1;
    else to = middle;
  }
  return from;
}

/**
 * Counts received messages in consecutive periods. Uses the fold's daily totals; a UTC day that spans two periods is
 * counted by message.
 */
export class ReceivedCounts {
  readonly sets: ReadonlyMap<number, ChartedSet>;
  /** Counts by place set: before the first bound, in each period, and after the last bound. */
  readonly #counts = new Map<number, Record<'messages' | 'bytes', Float64Array>>();
  readonly #periods: number;
  #bySet: (readonly [ChartedSet, Sums])[] | undefined;

  /** @param bounds ascending docids: the start of each period, and the end of the last */
  constructor(
    private readonly connection: Connection,
    private readonly filter: ChartFilter,
    private readonly bounds: readonly number[],
  ) {
    this.sets = countedSets(connection, filter);
    this.#periods = bounds.length + 1;
    this.#addDays();
    this.#split();
  }

  of(fits: (set: ChartedSet) => boolean): Sums[] {
    return this.#sums(fits).slice(1, -1);
  }

  before(fits: (set: ChartedSet) => boolean): Sums {
    return this.#sums(fits)[0] ?? NONE;
  }

  all(fits: (set: ChartedSet) => boolean): Sums {
    let sums: Sums = NONE;
    for (const [set, setSums] of this.bySet()) if (fits(set)) sums = addSums(sums, setSums);
    return sums;
  }

  bySet(): readonly (readonly [set: ChartedSet, sums: Sums])[] {
    this.#bySet ??= [...this.#counts].flatMap(([id, counts]) => {
      const set = this.sets.get(id);
      if (set === undefined) return [];
      const [messages, bytes] = [total(counts.messages), total(counts.bytes)];
      return [[set, { messages, bytes, deleted: set.deleted ? messages : 0 }] as const];
    });
    return this.#bySet;
  }

  #addDays(): void {
    for (const { id, days, messages, bytes } of receivedDays(this.connection)) {
      if (!this.sets.has(id)) continue;
      for (const [at, day] of days.entries()) {
        const period = countUpTo(this.bounds, day * DOCIDS_PER_DAY);
        this.#add(period, [id, messages[at] ?? 0, bytes[at] ?? 0]);
      }
    }
  }

  /** Splits days that overlap several periods: moves messages from the first period to the others. */
  #split(): void {
    for (const [at, low] of this.bounds.entries()) {
      const dayStart = Math.floor(low / DOCIDS_PER_DAY) * DOCIDS_PER_DAY;
      if (low === dayStart) continue;
      const high = Math.min(
        this.bounds[at + 1] ?? dayStart + DOCIDS_PER_DAY,
        dayStart + DOCIDS_PER_DAY,
      );
      const rows = this.connection.values<Count>(
        `SELECT place_set, count(*), sum(size) FROM messages
         WHERE docid >= ${low} AND docid < ${high} AND ${chartCondition(this.connection, this.filter, this.sets)}
         GROUP BY place_set`,
      );
      const first = countUpTo(this.bounds, dayStart);
      for (const [set, messages, bytes] of rows) {
        this.#add(at + 1, [set, messages, bytes]);
        this.#add(first, [set, -messages, -bytes]);
      }
    }
  }

  #add(period: number, [set, messages, bytes]: Count): void {
    const counts = this.#countsOf(set);
    counts.messages[period] = (counts.messages[period] ?? 0) + messages;
    counts.bytes[period] = (counts.bytes[period] ?? 0) + bytes;
  }

  #countsOf(set: number) {
    const previous = this.#counts.get(set);
    if (previous !== undefined) return previous;
    const counts = {
      messages: new Float64Array(this.#periods),
      bytes: new Float64Array(this.#periods),
    };
    this.#counts.set(set, counts);
    return counts;
  }

  #sums(fits: (set: ChartedSet) => boolean): Sums[] {
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

/** Counts all mailboxes that the reader may see. */
export const EVERYWHERE: ChartFilter = { fits: null };

/** Returns the totals for all mailboxes, cached until the next commit. */
export const totalReceived = untilCommit((connection) => {
  const received = new ReceivedCounts(connection, EVERYWHERE, []);
  received.bySet();
  return received;
});

/** Returns the UTC days on which messages in these sets were received, ascending. Skips undated messages. */
export function listReceivedDays(
  connection: Connection,
  filter: ChartFilter,
  fits: (set: ChartedSet) => boolean,
): number[] {
  const sets = countedSets(connection, filter);
  const found = receivedDays(connection).flatMap(({ id, days }) => {
    const set = sets.get(id);
    return set !== undefined && fits(set) ? days : [];
  });
  return [...new Set(found)].filter((day) => hasDate(day * DOCIDS_PER_DAY)).sort((a, b) => a - b);
}
