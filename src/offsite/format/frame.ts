import { TAG_BYTES } from './cipher.ts';
import { HEADER_BYTES } from './header.ts';

/** Bytes of text in every chunk but the last. */
export const CHUNK_BYTES = 1024 * 1024;
/** The length, before the bytes themselves. */
export const LENGTH_BYTES = 8;
const PADDED_TO = 64 * 1024;
/** Padding is cut from here. */
export const ZEROS = Buffer.alloc(PADDED_TO);

/** Returns the length of bytes with their length before them and zeros after them. */
export function framedLength(length: number): number {
  return Math.ceil((LENGTH_BYTES + length) / PADDED_TO) * PADDED_TO;
}

/** Returns the length of the object that bytes of a length become: the only thing that is known of them without a key. */
export function sealedLength(length: number): number {
  const framed = framedLength(length);
  return HEADER_BYTES + framed + Math.ceil(framed / CHUNK_BYTES) * TAG_BYTES;
}
