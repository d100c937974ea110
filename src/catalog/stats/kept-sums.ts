import { isDated } from '../../mail/docid.ts';
import type { Connection } from '../connection.ts';
import { numberList } from '../number-list.ts';
import { DOCIDS_PER_DAY, type PlaceSet } from '../place-sets.ts';
import { foldersIn, placeSetsIn, type Scope } from '../scope.ts';
import { type ReceivedDays, receivedDays } from './received-days.ts';
import { plus, type Sums } from './rows.ts';

interface Row {
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
    const rows = this.connection.text<Row>(
      `SELECT place_set, count(*) AS messages, sum(size) AS bytes FROM messages
       WHERE docid >= ? AND docid < ? AND ${this.#among('place_set')} GROUP BY place_set`,
      [BigInt(low), BigInt(high)],
    );
    return [...rows]
      .filter((row) => this.#sets.has(row.place_set))
      .map((row) => this.#sumsOf(row))
      .reduce(plus, NONE);
  }

  #sumsOf({ place_set: set, messages, bytes }: Row): Sums {
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
