import type { FlagSet } from '../core/types.ts';
import type { SortField } from '../service/surface.ts';

export interface Entry {
  readonly uid: number;
  readonly source: number;
  readonly flags: FlagSet;
}

export interface SourceFacts {
  size(source: number): number;
  received(source: number): number;
}

/** A folder's messages in uid order. A new message always has the highest uid. */
export class Folder {
  #entries: Entry[] = [];
  #nextUid = 1;
  readonly #sorted = new Map<SortField, Uint32Array>();

  constructor(
    readonly id: number,
    public path: string,
    readonly specialUse: string | null,
  ) {}

  get count(): number {
    return this.#entries.length;
  }

  get unread(): number {
    return this.#entries.filter(({ flags }) => !flags.includes('\\Seen')).length;
  }

  /** A uid that was never used in this folder. */
  get nextUid(): number {
    return this.#nextUid;
  }

  get lastUid(): number {
    return this.#entries.at(-1)?.uid ?? 0;
  }

  /** @param uid at least `nextUid` */
  append(uid: number, source: number, flags: FlagSet): void {
    if (uid < this.#nextUid) throw new RangeError(`uid ${uid} was handed out before`);
    this.#entries.push({ uid, source, flags });
    this.#nextUid = uid + 1;
    this.#sorted.clear();
  }

  /** Prevents reuse of uids below `nextUid`. */
  reserve(nextUid: number): void {
    this.#nextUid = Math.max(this.#nextUid, nextUid);
  }

  get(uid: number): Entry | null {
    const entry = this.#entries[this.#lowerBound(uid)];
    return entry?.uid === uid ? entry : null;
  }

  /** @returns the number of the source, or null if the message does not exist */
  remove(uid: number): number | null {
    const entry = this.get(uid);
    if (entry === null) return null;
    this.#entries.splice(this.#lowerBound(uid), 1);
    this.#sorted.clear();
    return entry.source;
  }

  clear(): readonly Entry[] {
    const entries = this.#entries;
    this.#entries = [];
    this.#sorted.clear();
    return entries;
  }

  /** @returns false if the message does not exist */
  setFlags(uid: number, flags: FlagSet): boolean {
    const entry = this.get(uid);
    if (entry === null) return false;
    this.#entries[this.#lowerBound(uid)] = { ...entry, flags };
    return true;
  }

  renumber(firstUid: number): readonly Entry[] {
    this.#nextUid = firstUid;
    return this.clear();
  }

  /** Returns a page in sort order. Ties are broken by uid. Sorting by date or size reads every source's facts. */
  page(
    sort: SortField,
    descending: boolean,
    offset: number,
    limit: number,
    facts: SourceFacts,
  ): Entry[] {
    const total = this.count;
    const first = Math.min(offset, total);
    const last = Math.min(offset + limit, total);
    const order = sort === 'uid' ? null : this.#order(sort, facts);
    const entries: Entry[] = [];
    for (let index = first; index < last; index += 1) {
      const rank = descending ? total - 1 - index : index;
      const entry = this.#entries[order === null ? rank : (order[rank] ?? 0)];
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  countBetween(low: number, high: number): number {
    return this.#lowerBound(high + 1) - this.#lowerBound(low);
  }

  /** Returns the entries in a uid range in order, skipping the first `skip`. */
  between(low: number, high: number, skip: number, limit: number): Entry[] {
    const start = this.#lowerBound(low) + skip;
    return this.#entries.slice(start, Math.min(start + limit, this.#lowerBound(high + 1)));
  }

  entries(): Iterable<Entry> {
    return this.#entries.values();
  }

  #lowerBound(uid: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle]?.uid ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #order(sort: 'date' | 'size', facts: SourceFacts): Uint32Array {
    const cached = this.#sorted.get(sort);
    if (cached !== undefined) return cached;
    const keys = Float64Array.from(this.#entries, ({ source }) =>
      sort === 'date' ? facts.received(source) : facts.size(source),
    );
    const positions = Uint32Array.from(keys.keys());
    positions.sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b);
    this.#sorted.set(sort, positions);
    return positions;
  }
}
