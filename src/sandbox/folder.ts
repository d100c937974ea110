import { type FlagSet, flagSet } from '../core/types.ts';
import type { SortField } from '../service/surface.ts';

/**
 * Counts living positions of a list that only grows at its end: a Fenwick tree over 0/1, so that the number
 * of living ones before a position and the position of the n-th living one both take O(log n).
 */
export class LivingCount {
  #tree = new Int32Array(64);
  #length = 0;
  #living = 0;

  /** Positions ever appended. */
  get length(): number {
    return this.#length;
  }

  get living(): number {
    return this.#living;
  }

  append(): void {
    this.#length += 1;
    const node = this.#length;
    if (node >= this.#tree.length) {
      const grown = new Int32Array(this.#tree.length * 2);
      grown.set(this.#tree);
      this.#tree = grown;
    }
    // A new node covers the positions (node - lowbit, node]: itself and the nodes below it.
    let sum = 1;
    const stop = node - (node & -node);
    for (let below = node - 1; below > stop; below -= below & -below) sum += this.#tree[below] ?? 0;
    this.#tree[node] = sum;
    this.#living += 1;
  }

  /** Takes a living position out; the caller knows that it is alive. */
  kill(position: number): void {
    this.#living -= 1;
    for (let node = position + 1; node <= this.#length; node += node & -node) {
      this.#tree[node] = (this.#tree[node] ?? 0) - 1;
    }
  }

  /** Living positions below `position`. */
  before(position: number): number {
    let sum = 0;
    for (let node = Math.min(position, this.#length); node > 0; node -= node & -node) {
      sum += this.#tree[node] ?? 0;
    }
    return sum;
  }

  /** Position of the living one with this rank (0-based), or -1 beyond the last. */
  at(rank: number): number {
    if (rank < 0 || rank >= this.#living) return -1;
    let position = 0;
    let remaining = rank;
    for (let step = 2 ** Math.floor(Math.log2(this.#length)); step >= 1; step /= 2) {
      const next = position + step;
      const count = next <= this.#length ? (this.#tree[next] ?? 0) : Number.POSITIVE_INFINITY;
      if (count <= remaining) {
        position = next;
        remaining -= count;
      }
    }
    return position;
  }
}

/** Flag sets as small numbers: a mailbox has many messages and few distinct sets. */
export class FlagTable {
  readonly #sets: FlagSet[] = [];
  readonly #ids = new Map<string, number>();

  idOf(flags: Iterable<string>): number {
    const set = flagSet(flags);
    const key = JSON.stringify(set);
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const id = this.#sets.length;
    this.#sets.push(set);
    this.#ids.set(key, id);
    return id;
  }

  get(id: number): FlagSet {
    return this.#sets[id] ?? [];
  }
}

/** A message as a folder holds it. */
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

const SEEN = '\\Seen';

/**
 * The messages of one folder by uid. Uids only grow, so entries are appended to parallel arrays and a
 * deletion leaves a hole: every look-up by uid or by offset stays O(log n) whatever was deleted before.
 */
export class Folder {
  #nextUid = 1;
  #uids = new Float64Array(16);
  #sources = new Float64Array(16);
  #flags = new Uint32Array(16);
  #alive = new Uint8Array(16);
  #unread = 0;
  #living = new LivingCount();
  readonly #sorted = new Map<SortField, Uint32Array>();

  constructor(
    readonly id: number,
    public path: string,
    public specialUse: string | null,
    nextUid: number,
    private readonly flagTable: FlagTable,
  ) {
    this.#nextUid = nextUid;
  }

  get count(): number {
    return this.#living.living;
  }

  get unread(): number {
    return this.#unread;
  }

  /** The uid the next message gets; never handed out before in this folder. */
  get nextUid(): number {
    return this.#nextUid;
  }

  /** Highest living uid, or 0 in an empty folder. */
  get lastUid(): number {
    return this.#uids[this.#living.at(this.count - 1)] ?? 0;
  }

  /** Appends a message under a uid at or above `nextUid`. */
  append(uid: number, source: number, flags: Iterable<string>): void {
    if (uid < this.#nextUid) throw new RangeError(`uid ${uid} was handed out before`);
    const position = this.#living.length;
    if (position === this.#uids.length) this.#grow();
    const flagId = this.flagTable.idOf(flags);
    this.#uids[position] = uid;
    this.#sources[position] = source;
    this.#flags[position] = flagId;
    this.#alive[position] = 1;
    this.#living.append();
    this.#nextUid = uid + 1;
    if (!this.flagTable.get(flagId).includes(SEEN)) this.#unread += 1;
    this.#sorted.clear();
  }

  /** Makes sure that no uid below `nextUid` is handed out again. */
  reserve(nextUid: number): void {
    this.#nextUid = Math.max(this.#nextUid, nextUid);
  }

  get(uid: number): Entry | null {
    const position = this.#positionOf(uid);
    return position < 0 ? null : this.#entry(position);
  }

  /** Takes a message out. @returns its source number, or null when there is no such message */
  remove(uid: number): number | null {
    const position = this.#positionOf(uid);
    if (position < 0) return null;
    if (!this.#isSeen(position)) this.#unread -= 1;
    this.#alive[position] = 0;
    this.#living.kill(position);
    this.#sorted.clear();
    const source = this.#sources[position] ?? 0;
    this.#compact();
    return source;
  }

  /** @returns false when there is no such message */
  setFlags(uid: number, flags: Iterable<string>): boolean {
    const position = this.#positionOf(uid);
    if (position < 0) return false;
    const wasSeen = this.#isSeen(position);
    this.#flags[position] = this.flagTable.idOf(flags);
    const seen = this.#isSeen(position);
    if (wasSeen && !seen) this.#unread += 1;
    if (!wasSeen && seen) this.#unread -= 1;
    return true;
  }

  /** Takes every message out and forgets which uids were used: what a folder deleted and made again does. */
  renumber(firstUid: number): Entry[] {
    const entries = [...this.entries()];
    this.#living = new LivingCount();
    this.#unread = 0;
    this.#sorted.clear();
    this.#nextUid = firstUid;
    return entries;
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
    const out: Entry[] = [];
    const order = sort === 'uid' ? null : this.#order(sort, facts);
    for (let index = first; index < last; index += 1) {
      const rank = descending ? total - 1 - index : index;
      out.push(this.#entry(order === null ? this.#living.at(rank) : (order[rank] ?? 0)));
    }
    return out;
  }

  /** Living messages with `low <= uid <= high`. */
  countBetween(low: number, high: number): number {
    return (
      this.#living.before(this.#lowerBound(high + 1)) - this.#living.before(this.#lowerBound(low))
    );
  }

  /** Entries of a uid range, ascending; `skip` of them passed over without being read. */
  between(low: number, high: number, skip: number, limit: number): Entry[] {
    const start = this.#living.before(this.#lowerBound(low)) + skip;
    const stop = Math.min(start + limit, this.#living.before(this.#lowerBound(high + 1)));
    const out: Entry[] = [];
    for (let rank = start; rank < stop; rank += 1) out.push(this.#entry(this.#living.at(rank)));
    return out;
  }

  *entries(): Generator<Entry> {
    for (let position = 0; position < this.#living.length; position += 1) {
      if (this.#alive[position] === 1) yield this.#entry(position);
    }
  }

  #entry(position: number): Entry {
    return {
      uid: this.#uids[position] ?? 0,
      source: this.#sources[position] ?? 0,
      flags: this.flagTable.get(this.#flags[position] ?? 0),
    };
  }

  #isSeen(position: number): boolean {
    return this.flagTable.get(this.#flags[position] ?? 0).includes(SEEN);
  }

  /** First position whose uid is at least `uid`, holes included. */
  #lowerBound(uid: number): number {
    let low = 0;
    let high = this.#living.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#uids[middle] ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #positionOf(uid: number): number {
    const position = this.#lowerBound(uid);
    return position < this.#living.length &&
      this.#uids[position] === uid &&
      this.#alive[position] === 1
      ? position
      : -1;
  }

  #order(sort: 'date' | 'size', facts: SourceFacts): Uint32Array {
    const known = this.#sorted.get(sort);
    if (known !== undefined) return known;
    const positions = new Uint32Array(this.count);
    const keys = new Float64Array(this.#living.length);
    let rank = 0;
    for (let position = 0; position < this.#living.length; position += 1) {
      if (this.#alive[position] === 0) continue;
      positions[rank++] = position;
      const source = this.#sources[position] ?? 0;
      keys[position] = sort === 'date' ? facts.received(source) : facts.size(source);
    }
    positions.sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b);
    this.#sorted.set(sort, positions);
    return positions;
  }

  #grow(): void {
    const size = this.#uids.length * 2;
    this.#uids = grown(this.#uids, new Float64Array(size));
    this.#sources = grown(this.#sources, new Float64Array(size));
    this.#flags = grown(this.#flags, new Uint32Array(size));
    this.#alive = grown(this.#alive, new Uint8Array(size));
  }

  /** Closes the holes once they are more than the living, which keeps deletion O(log n) on the mean. */
  #compact(): void {
    const length = this.#living.length;
    if (length < 64 || this.count * 2 > length) return;
    const living = new LivingCount();
    for (let position = 0; position < length; position += 1) {
      if (this.#alive[position] === 0) continue;
      const to = living.length;
      this.#uids[to] = this.#uids[position] ?? 0;
      this.#sources[to] = this.#sources[position] ?? 0;
      this.#flags[to] = this.#flags[position] ?? 0;
      this.#alive[to] = 1;
      living.append();
    }
    this.#alive.fill(0, living.length, length);
    this.#living = living;
  }
}

function grown<T extends Float64Array | Uint32Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
