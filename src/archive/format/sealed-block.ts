import { FLAG_PURGED } from './record-header.ts';

/** Bytes before each record of a block: kind u8, zero u8, flags u16, raw length u32, little-endian. */
export const INNER_HEADER_BYTES = 8;
const HASH_BYTES = 32;

/**
 * A record within a block. Its hash is not stored (the block's own hash covers it, and it can be computed); a purged
 * record has its hash where its payload was.
 */
export interface InnerRecord {
  readonly kind: number;
  readonly flags: number;
  readonly rawLength: number;
  /** The payload, or undefined when it was purged: then `hash` is there. */
  readonly payload: Buffer | undefined;
  readonly hash: Buffer | undefined;
}

/** How many bytes a record takes within a block. */
export function innerLength(rawLength: number, purged: boolean): number {
  return INNER_HEADER_BYTES + (purged ? HASH_BYTES : rawLength);
}

/** The pieces of a record as a block holds it. */
export function encodeInner(record: {
  readonly kind: number;
  readonly rawLength: number;
  readonly payload: Buffer | undefined;
  readonly hash: Buffer;
}): readonly [Buffer, Buffer] {
  const head = Buffer.allocUnsafe(INNER_HEADER_BYTES);
  head[0] = record.kind;
  head[1] = 0;
  head.writeUInt16LE(record.payload === undefined ? FLAG_PURGED : 0, 2);
  head.writeUInt32LE(record.rawLength, 4);
  return [head, record.payload ?? record.hash];
}

/** The record at `at` of an inflated block; undefined when the block ends within it. */
export function decodeInner(block: Buffer, at: number): InnerRecord | undefined {
  if (at + INNER_HEADER_BYTES > block.length) return undefined;
  const kind = block.readUInt8(at);
  const flags = block.readUInt16LE(at + 2);
  const rawLength = block.readUInt32LE(at + 4);
  const purged = (flags & FLAG_PURGED) !== 0;
  const start = at + INNER_HEADER_BYTES;
  const end = start + (purged ? HASH_BYTES : rawLength);
  if (end > block.length) return undefined;
  const bytes = block.subarray(start, end);
  return purged
    ? { kind, flags, rawLength, payload: undefined, hash: bytes }
    : { kind, flags, rawLength, payload: bytes, hash: undefined };
}
