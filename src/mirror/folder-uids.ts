import type { OriginFacts, OriginUids } from '../catalog/origin-places.ts';
import type { UidOrder } from '../mailbox-surface/uid-pages.ts';

/** A message as a mirrored folder lists it. */
export interface MirrorEntry {
  readonly uid: number;
  /** See `OriginUids`. */
  readonly row: number;
  readonly flagSet: number;
  /** Its position in the folder. */
  readonly at: number;
}

/** The messages of a folder at one commit, in the order of their uids. */
export class FolderUids implements UidOrder<MirrorEntry> {
  /** Of messages that were asked for, not a number of others; made when the first one is. */
  #facts: { readonly sizes: Float64Array; readonly dates: Float64Array } | undefined;

  constructor(
    private readonly columns: OriginUids,
    private readonly factsOf: (row: number) => OriginFacts,
  ) {}

  get count(): number {
    return this.columns.uids.length;
  }

  get unread(): number {
    return this.columns.unread;
  }

  get lastUid(): number {
    return this.columns.uids.at(-1) ?? 0;
  }

  /** Returns the message of a uid; undefined where there is none. */
  get(uid: number): MirrorEntry | undefined {
    const [found] = this.between(uid, uid, 0, 1);
    return found;
  }

  countBetween(low: number, high: number): number {
    return this.#lowerBound(high + 1) - this.#lowerBound(low);
  }

  between(low: number, high: number, skip: number, limit: number): MirrorEntry[] {
    const start = this.#lowerBound(low) + skip;
    const stop = Math.min(start + limit, this.#lowerBound(high + 1));
    const { uids, rows, flagSets } = this.columns;
    const found: MirrorEntry[] = [];
    for (let at = start; at < stop; at += 1)
      found.push({ uid: uids[at] ?? 0, row: rows[at] ?? 0, flagSet: flagSets[at] ?? 0, at });
    return found;
  }

  /** Returns the size and the received date of a message. */
  facts({ at, row }: MirrorEntry): OriginFacts {
    this.#facts ??= { sizes: unknown(this.count), dates: unknown(this.count) };
    const { sizes, dates } = this.#facts;
    const [size = Number.NaN, date = Number.NaN] = [sizes[at], dates[at]];
    if (!Number.isNaN(size)) return { size, date };
    const facts = this.factsOf(row);
    sizes[at] = facts.size;
    dates[at] = facts.date;
    return facts;
  }

  /** The first position whose uid is at least `uid`. */
  #lowerBound(uid: number): number {
    const { uids } = this.columns;
    let [low, high] = [0, uids.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((uids[middle] ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function unknown(count: number): Float64Array {
  return new Float64Array(count).fill(Number.NaN);
}
