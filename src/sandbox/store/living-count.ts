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
