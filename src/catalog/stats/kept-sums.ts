import type { Connection } from '../connection.ts';
import { numberList } from '../number-list.ts';
import { DOCIDS_PER_DAY, type PlaceSet } from '../place-sets.ts';
import { foldersIn, placeSetsIn, type Scope } from '../scope.ts';
import type { Sums } from './rows.ts';

interface Row {
  readonly place_set: number;
  readonly messages: number;
  readonly bytes: number;
}

interface MutableSums {
  messages: number;
  bytes: number;
  deleted: number;
}

/** The sums that the fold keeps, read once for one question. */
export class KeptSums {
  readonly #sets: ReadonlyMap<number, PlaceSet>;
  readonly #deleted: ReadonlySet<number>;
  /** Days that have messages, ascending, each with the sums of all days before it. */
  readonly #days: { readonly day: number; readonly before: Sums; readonly own: Sums }[] = [];
  readonly #bySet = new Map<number, MutableSums>();

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
    this.#readDays();
  }

  /** The days that have messages, ascending. */
  *days(): Generator<number, void, undefined> {
    for (const { day } of this.#days) yield day;
  }

  /** From the beginning of the first day that has messages to the end of the last, in docids; undefined for none. */
  range(): { readonly low: number; readonly high: number } | undefined {
    const [first, last] = [this.#days[0], this.#days.at(-1)];
    if (first === undefined || last === undefined) return undefined;
    return { low: first.day * DOCIDS_PER_DAY, high: (last.day + 1) * DOCIDS_PER_DAY };
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
    for (const [id, own] of this.#bySet) {
      const set = this.#sets.get(id);
      if (set !== undefined && fits(set)) sums = plus(sums, own);
    }
    return sums;
  }

  #among(column: string): string {
    return this.scope === null ? '1' : `${column} IN ${placeSetsIn(this.scope)}`;
  }

  #readDays(): void {
    const rows = this.connection.text<Row & { day: number }>(
      `SELECT place_set, day, messages, bytes FROM received_days
       WHERE ${this.#among('place_set')} ORDER BY day`,
      [],
    );
    let before: Sums = NONE;
    let day: { day: number; own: Sums } | undefined;
    const close = () => {
      if (day === undefined) return;
      this.#days.push({ ...day, before });
      before = plus(before, day.own);
    };
    for (const row of rows) {
      if (!this.#sets.has(row.place_set)) continue;
      const own = this.#sumsOf(row);
      const known = this.#bySet.get(row.place_set);
      this.#bySet.set(row.place_set, known === undefined ? own : plus(known, own));
      if (day?.day === row.day) day = { day: row.day, own: plus(day.own, own) };
      else {
        close();
        day = { day: row.day, own };
      }
    }
    close();
  }

  /** The sums of all days before one. */
  #before(day: number): Sums {
    let [from, to] = [0, this.#days.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#days[middle]?.day ?? 0) < day) from = middle + 1;
      else to = middle;
    }
    const last = this.#days[from - 1];
    return last === undefined ? NONE : plus(last.before, last.own);
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

const NONE: Sums = { messages: 0, bytes: 0, deleted: 0 };

function plus(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages + b.messages,
    bytes: a.bytes + b.bytes,
    deleted: a.deleted + b.deleted,
  };
}

function minus(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages - b.messages,
    bytes: a.bytes - b.bytes,
    deleted: a.deleted - b.deleted,
  };
}
