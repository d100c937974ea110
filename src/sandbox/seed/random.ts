import { createHash } from 'node:crypto';

/** A small seeded generator; the same seed gives the same run on every machine and version. */
export interface Random {
  /** 0 ≤ x < 1. */
  unit(): number;
  /** 0 ≤ n < bound. */
  below(bound: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
  chance(probability: number): boolean;
  bytes(length: number): Buffer;
}

/** sfc32 (PractRand): 128 bits of state, four operations a draw. */
class Sfc32 implements Random {
  #a: number;
  #b: number;
  #c: number;
  #counter: number;

  constructor(a: number, b: number, c: number) {
    this.#a = a | 0;
    this.#b = b | 0;
    this.#c = c | 0;
    this.#counter = 1;
    for (let round = 0; round < 12; round += 1) this.#next();
  }

  unit(): number {
    return this.#next() / 4_294_967_296;
  }

  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0];
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  bytes(length: number): Buffer {
    const out = Buffer.allocUnsafe(length);
    let at = 0;
    for (; at + 4 <= length; at += 4) out.writeUInt32LE(this.#next(), at);
    for (; at < length; at += 1) out[at] = this.#next() & 0xff;
    return out;
  }

  #next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }
}

/** A generator for a purpose; different purposes of one seed are independent. */
export function randomFrom(seed: number, purpose: string): Random {
  const hash = createHash('sha256').update(`${seed}/${purpose}`).digest();
  return new Sfc32(hash.readInt32LE(0), hash.readInt32LE(4), hash.readInt32LE(8));
}

/** A cheap generator for the n-th item of a seed, for runs that are looked up out of order. */
export function randomAt(seed: number, index: number, salt: number): Random {
  return new Sfc32(
    Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + salt,
    Math.imul(index + 1, 0xc2b2ae35) ^ seed,
    (index / 4_294_967_296) ^ Math.imul(salt + 1, 0x27d4eb2f),
  );
}
