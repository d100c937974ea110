import type { FlagSet } from '../core/types.ts';
import type { SortField } from '../service/surface.ts';

export interface Entry {
  readonly uid: number;
  /** Number of its raw source in the store. */
  readonly source: number;
  readonly flags: FlagSet;
}

/** What only the source contains, read when it is needed. */
export interface SourceFacts {
  size(source: number): number;
  received(source: number): number;
}

/** The messages of one folder, ascending by uid. Uids only grow, so a message is always appended at the end. */
export class Folder {
  #entries: Entry[] = [];
  #nextUid = 1;
  #unread = 0;
  /** Positions in order of date or size, until a message comes or goes. */
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
    return this.#unread;
  }

  /** The uid the next message gets; never handed out before in this folder. */
  get nextUid(): number {
    return this.#nextUid;
  }

  /** Highest uid, or 0 in an empty folder. */
  get lastUid(): number {
    return this.#entries.at(-1)?.uid ?? 0;
  }

  /** Appends a message under a uid at or above `nextUid`. */
  append(uid: number, source: number, flags: FlagSet): void {
    if (uid < this.#nextUid) throw new RangeError(`uid ${uid} was handed out before`);
    this.#entries.push({ uid, source, flags });
    this.#nextUid = uid + 1;
    if (isUnread(flags)) this.#unread += 1;
    this.#sorted.clear();
  }

  /** Makes sure that no uid below `nextUid` is handed out again. */
  reserve(nextUid: number): void {
    this.#nextUid = Math.max(this.#nextUid, nextUid);
  }

  get(uid: number): Entry | null {
    const entry = this.#entries[this.#lowerBound(uid)];
    return entry?.uid === uid ? entry : null;
  }

  /** Takes a message out. @returns its source number, or null when there is no such message */
  remove(uid: number): number | null {
    const entry = this.get(uid);
    if (entry === null) return null;
    this.#entries.splice(this.#lowerBound(uid), 1);
    if (isUnread(entry.flags)) this.#unread -= 1;
    this.#sorted.clear();
    return entry.source;
  }

  /** Takes every message out. @returns them */
  clear(): readonly Entry[] {
    const entries = this.#entries;
    this.#entries = [];
    this.#unread = 0;
    this.#sorted.clear();
    return entries;
  }

  /** @returns false when there is no such message */
  setFlags(uid: number, flags: FlagSet): boolean {
    const entry = this.get(uid);
    if (entry === null) return false;
    this.#unread += Number(isUnread(flags)) - Number(isUnread(entry.flags));
    this.#entries[this.#lowerBound(uid)] = { ...entry, flags };
    return true;
  }

  /** Takes every message out and forgets which uids were used, as when a folder is deleted and made again. */
  renumber(firstUid: number): readonly Entry[] {
    this.#nextUid = firstUid;
    return this.clear();
  }

  /**
   * One page in sort order. Sorting by date or size asks the source facts of every message, once until the
   * folder changes; ties go by uid.
   */
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
    const out: Entry[] = [];
    for (let index = first; index < last; index += 1) {
      const rank = descending ? total - 1 - index : index;
      const entry = this.#entries[order === null ? rank : (order[rank] ?? 0)];
      if (entry !== undefined) out.push(entry);
    }
    return out;
  }

  /** Messages with `low <= uid <= high`. */
  countBetween(low: number, high: number): number {
    return this.#lowerBound(high + 1) - this.#lowerBound(low);
  }

  /** Entries of a uid range, ascending; `skip` of them passed over without being read. */
  between(low: number, high: number, skip: number, limit: number): Entry[] {
    const start = this.#lowerBound(low) + skip;
    return this.#entries.slice(start, Math.min(start + limit, this.#lowerBound(high + 1)));
  }

  entries(): Iterable<Entry> {
    return this.#entries.values();
  }

  /** First position whose uid is at least `uid`. */
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
    const known = this.#sorted.get(sort);
    if (known !== undefined) return known;
    const keys = Float64Array.from(this.#entries, ({ source }) =>
      sort === 'date' ? facts.received(source) : facts.size(source),
    );
    const positions = Uint32Array.from(keys.keys());
    positions.sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b);
    this.#sorted.set(sort, positions);
    return positions;
  }
}

function isUnread(flags: FlagSet): boolean {
  return !flags.includes('\\Seen');
}
