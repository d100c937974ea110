import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import type {
  ObjectIdentity,
  OpeningKey,
  SealingKey,
} from '../../../src/copies/format/sealed-object.ts';
import { newKeyPair, open, seal } from '../../../src/copies/format/sealed-object.ts';
import { rawPublicKey } from '../../../src/copies/local-key.ts';
import { MailkeepError } from '../../../src/core/errors.ts';

const copyId = randomBytes(16);
const pair = newKeyPair();

/** Keys of a copy. */
export const sealing = { copyId, publicKey: pair.publicKey };
export const opening = { copyId, privateKeys: [pair.privateKey] };

export const about: ObjectIdentity = { kind: 'segment', name: `data/${'0'.repeat(48)}` };

/** A key that signs manifests, and its public half. */
export function newSigner() {
  const { privateKey } = generateKeyPairSync('ed25519');
  return {
    raw: rawPublicKey(privateKey),
    sign: (bytes: Buffer) => sign(null, bytes, privateKey),
  };
}

/** Returns a copy with another bit. */
export function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

/** Returns bytes that depend on a seed only. */
export function noise(length: number, seed: string): Buffer {
  if (length === 0) return Buffer.alloc(0);
  return createHash('shake256', { outputLength: length }).update(seed).digest();
}

/** Returns a function that returns whole numbers below a bound; the same ones for the same seed. */
export function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Yields bytes in pieces of at most `most` bytes, some of them empty. */
export async function* pieces(
  bytes: Uint8Array,
  most = 300_000,
  next = numbers(1),
): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; ) {
    const piece = bytes.subarray(at, at + next(most + 1));
    at += piece.length;
    yield piece;
  }
}

export async function all(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(part);
  return Buffer.concat(parts);
}

export async function sealed(
  plain: Buffer,
  of = about,
  key: SealingKey = sealing,
): Promise<Buffer> {
  return all(seal(key, of, plain.length, pieces(plain)).bytes);
}

/** What becomes of an object: its content, or the code and reason of the error, and how many bytes came before it. */
export async function opened(bytes: Uint8Array, of = about, key: OpeningKey = opening) {
  const parts: Buffer[] = [];
  try {
    for await (const part of open(key, of, pieces(bytes, 1_100_000))) parts.push(part);
    return { content: Buffer.concat(parts) };
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { code, facts } = error;
    return { code, reason: facts.reason ?? null, before: Buffer.concat(parts).length };
  }
}
