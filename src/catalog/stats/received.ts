import type { Connection } from '../connection.ts';
import { DOCIDS_PER_DAY } from '../place-sets.ts';
import { type ChartFilter, type CountedSet, countedSets, isCounted } from './chart-filter.ts';
import { receivedDays } from './received-days.ts';
import { plus, type Sums } from './rows.ts';

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
