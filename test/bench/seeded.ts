import { createCipheriv, createHash } from 'node:crypto';

/** A reproducible source of numbers and bytes: the same name gives the same sequence on every machine. */
export interface Seeded {
  /** Uniform in [0, 1). */
  next(): number;
  /** Uniform integer in [0, below). */
  below(below: number): number;
  /** Incompressible bytes. */
  bytes(length: number): Buffer;
}

/** Names the sequence by text (seed, purpose, index), so that one message never depends on another's draws. */
export function seeded(...name: readonly (string | number)[]): Seeded {
  const key = createHash('sha256').update(name.join('\u0000')).digest();
  let state = key.readUInt32LE(16);
  const next = (): number => {
    // mulberry32: 32 bits of state are plenty for the few draws of one name.
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  const bytes = (length: number): Buffer => {
    const iv = Buffer.alloc(16);
    iv.writeUInt32LE(below(0x1_0000_0000), 0);
    return createCipheriv('aes-128-ctr', key.subarray(0, 16), iv).update(Buffer.alloc(length));
  };
  return { next, below, bytes };
}

/** A seeded permutation of 0..count-1 (Fisher-Yates). */
export function permutation(count: number, random: Seeded): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = random.below(i + 1);
    const a = order[i];
    const b = order[j];
    if (a === undefined || b === undefined) continue;
    order[i] = b;
    order[j] = a;
  }
  return order;
}
