import { docidBaseOf } from '../mail/docid.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

/** Bits a key: with four probes, one unknown key in 400 is taken for a known one and costs the query it would have saved. */
const BITS_PER_KEY = 16;
/** Keys of the first filter; each further one holds twice as many as the one before. */
const FIRST_KEYS = 16_384;

/** A set of keys that only grows: never wrong about a key it lacks (Bloom, 1970), and scalable by adding filters. */
export class BloomFilter {
  readonly #filters: { readonly bits: Uint32Array; readonly mask: number; room: number }[] = [];

  /** A key is four numbers of 32 bits, each evenly distributed. */
  add(a: number, b: number, c: number, d: number): void {
    if (this.mayHave(a, b, c, d)) return;
    let last = this.#filters.at(-1);
    if (last === undefined || last.room === 0) {
      const keys = FIRST_KEYS * 2 ** this.#filters.length;
      const bits = keys * BITS_PER_KEY;
      last = { bits: new Uint32Array(bits / 32), mask: bits - 1, room: keys };
      this.#filters.push(last);
    }
    const { bits, mask } = last;
    set(bits, a & mask);
    set(bits, b & mask);
    set(bits, c & mask);
    set(bits, d & mask);
    last.room -= 1;
  }

  /** Returns false for a key that was never added. */
  mayHave(a: number, b: number, c: number, d: number): boolean {
    for (const { bits, mask } of this.#filters)
      if (has(bits, a & mask) && has(bits, b & mask) && has(bits, c & mask) && has(bits, d & mask))
        return true;
    return false;
  }
}

function set(bits: Uint32Array, at: number): void {
  const word = at >>> 5;
  bits[word] = (bits[word] ?? 0) | (1 << (at & 31));
}

function has(bits: Uint32Array, at: number): boolean {
  return ((bits[at >>> 5] ?? 0) & (1 << (at & 31))) !== 0;
}

const RECORDS = query()((db) => db.selectFrom('records').select('hash'));
const TOMBSTONES = query()((db) => db.selectFrom('tombstones').select('id as hash'));
const DOCIDS = query()((db) => db.selectFrom('messages').select('docid'));
const MESSAGES = query()((db) => db.selectFrom('meta').select('messages'));

/** Queries for what is not there before the filters are filled, at least. */
const FIRST_MISSES = 128;
/** The same as a share of the messages: filling takes 1 to 2 µs a message, and each query saved 5 to 40. */
const MISSES_PER_MESSAGE = 1 / 16;

/**
 * Hashes of messages and blobs, and seconds of docids, that the catalog may have. A first sync asks for each message
 * whether it is known, forgotten, and whether its docid is free, and the answer is nearly always the same: this gives
 * it without a query. For the writer, the only one to add rows.
 */
export class KnownHashes {
  #filled: { readonly hashes: BloomFilter; readonly seconds: BloomFilter } | undefined;
  #misses = 0;

  constructor(private readonly connection: Connection) {}

  /** Returns true when no record and no tombstone has this hash. */
  lacks(hash: Buffer): boolean {
    const known = this.#filled?.hashes;
    return known !== undefined && !known.mayHave(...wordsOf(hash));
  }

  /** Returns true when no message has a docid within the second that begins with this one. */
  lacksSecond(docid: number): boolean {
    const known = this.#filled?.seconds;
    return known !== undefined && !known.mayHave(...spread(docidBaseOf(docid)));
  }

  /** A query found nothing: from some number on, it pays to know beforehand. */
  missed(): void {
    this.#misses += 1;
    if (this.#filled !== undefined || this.#misses < FIRST_MISSES) return;
    const messages = this.connection.get(MESSAGES, {})?.messages ?? 0;
    if (this.#misses >= messages * MISSES_PER_MESSAGE) this.#fill();
  }

  /** Notes what a batch brings, before it is folded. */
  add(hash: string): void {
    this.#filled?.hashes.add(...wordsOf(Buffer.from(hash, 'hex')));
  }

  addDocid(docid: number): void {
    this.#filled?.seconds.add(...spread(docidBaseOf(docid)));
  }

  #fill(): void {
    const hashes = new BloomFilter();
    const seconds = new BloomFilter();
    for (const rows of [RECORDS, TOMBSTONES])
      for (const { hash } of this.connection.rows(rows, {})) hashes.add(...wordsOf(hash));
    for (const { docid } of this.connection.rows(DOCIDS, {}))
      seconds.add(...spread(docidBaseOf(docid)));
    this.#filled = { hashes, seconds };
  }
}

type Words = readonly [number, number, number, number];

/** A SHA-256 is as evenly distributed as it gets. */
function wordsOf(hash: Buffer): Words {
  return [hash.readUInt32LE(0), hash.readUInt32LE(4), hash.readUInt32LE(8), hash.readUInt32LE(12)];
}

/** Spreads a number over four (multiplicative hashing: Knuth, The Art of Computer Programming, 6.4). */
function spread(value: number): Words {
  const low = value >>> 0;
  const high = Math.floor(value / 2 ** 32);
  const mixed = (factor: number): number => {
    const product = Math.imul(low ^ Math.imul(high, 0x9e37_79b1), factor);
    return (product ^ (product >>> 15)) >>> 0;
  };
  return [mixed(0x9e37_79b1), mixed(0x85eb_ca6b), mixed(0xc2b2_ae35), mixed(0x27d4_eb2f)];
}
