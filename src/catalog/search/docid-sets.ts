/** The messages of one stretch of the archive, in ascending order; sets of them have a bit for each. */
export class Stretch {
  readonly #docids: Float64Array;

  constructor(docids: readonly number[]) {
    this.#docids = Float64Array.from(docids);
  }

  get size(): number {
    return this.#docids.length;
  }

  none(): DocidSet {
    return new DocidSet(this.#docids, new Uint32Array(Math.ceil(this.size / 32)));
  }

  all(): DocidSet {
    return this.none().flipped();
  }

  /** Those of the docids that are in the stretch; quickest in runs that ascend. */
  of(docids: readonly number[]): DocidSet {
    const found = this.none();
    let from = 0;
    for (const docid of docids) {
      if ((this.#docids[from] ?? Infinity) > docid) from = 0;
      from = this.#positionOf(docid, from);
      if (this.#docids[from] === docid) found.mark(from);
    }
    return found;
  }

  /** Those with a docid from `low` (included) to `high` (excluded). */
  between(low: number, high: number): DocidSet {
    const end = this.#positionOf(high, 0);
    return this.where((position) => position < end, this.#positionOf(low, 0));
  }

  where(holds: (position: number) => boolean, from = 0): DocidSet {
    const found = this.none();
    for (let position = from; position < this.size; position += 1)
      if (holds(position)) found.mark(position);
    return found;
  }

  /** The position of the first docid at or behind one, looked for in steps that grow: mostly it is the next. */
  #positionOf(docid: number, from: number): number {
    const docids = this.#docids;
    let low = from;
    let high = from;
    for (let step = 1; high < docids.length && (docids[high] ?? 0) < docid; step *= 2) {
      low = high + 1;
      high += step;
    }
    high = Math.min(high, docids.length);
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((docids[middle] ?? 0) < docid) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A set of messages of one stretch. Only sets of the same stretch go together. */
export class DocidSet {
  constructor(
    private readonly docids: Float64Array,
    private readonly bits: Uint32Array,
  ) {}

  mark(position: number): void {
    const word = position >>> 5;
    this.bits[word] = (this.bits[word] ?? 0) | (1 << (position & 31));
  }

  and(other: DocidSet): DocidSet {
    return this.#combined(other, (a, b) => a & b);
  }

  or(other: DocidSet): DocidSet {
    return this.#combined(other, (a, b) => a | b);
  }

  without(other: DocidSet): DocidSet {
    return this.#combined(other, (a, b) => a & ~b);
  }

  flipped(): DocidSet {
    const bits = this.bits.map((word) => ~word);
    // What lies behind the last message belongs to no set.
    const used = this.docids.length & 31;
    if (used > 0) bits[bits.length - 1] = (bits[bits.length - 1] ?? 0) & ((1 << used) - 1);
    return new DocidSet(this.docids, bits);
  }

  isEmpty(): boolean {
    return this.bits.every((word) => word === 0);
  }

  count(): number {
    let count = 0;
    for (const word of this.bits) for (let rest = word; rest !== 0; rest &= rest - 1) count += 1;
    return count;
  }

  *ascending(): Generator<number, void, undefined> {
    for (let position = 0; position < this.docids.length; position += 1)
      if (this.#has(position)) yield this.docids[position] ?? 0;
  }

  *descending(): Generator<number, void, undefined> {
    for (let position = this.docids.length - 1; position >= 0; position -= 1)
      if (this.#has(position)) yield this.docids[position] ?? 0;
  }

  #has(position: number): boolean {
    return (((this.bits[position >>> 5] ?? 0) >>> (position & 31)) & 1) === 1;
  }

  #combined(other: DocidSet, act: (a: number, b: number) => number): DocidSet {
    const bits = new Uint32Array(this.bits.length);
    for (let i = 0; i < bits.length; i += 1) bits[i] = act(this.bits[i] ?? 0, other.bits[i] ?? 0);
    return new DocidSet(this.docids, bits);
  }
}
