import { crc32 } from 'node:zlib';

/** Entry b of the table of CRC-32 (polynomial 0xEDB88320, reflected): what a byte b adds at the end of a message. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

/**
 * Where a single flipped bit explains a wrong CRC-32. CRCs are linear: one bit changes the CRC by a value that depends
 * only on how far it stands from the end, and these are walked through once. Undefined when no single bit does.
 */
export function flippedBit(
  bytes: Buffer,
  wanted: number,
): { readonly at: number; readonly mask: number } | undefined {
  const syndrome = (crc32(bytes) ^ wanted) >>> 0;
  const changes = Uint32Array.from({ length: 8 }, (_, bit) => TABLE[1 << bit] ?? 0);
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const change = changes[bit] ?? 0;
      if (change === syndrome) return { at, mask: 1 << bit };
      changes[bit] = (change >>> 8) ^ (TABLE[change & 0xff] ?? 0);
    }
  }
  return undefined;
}

/** Flips each bit of a small buffer in turn until `accepts` does; the buffer is left as it is accepted, or unchanged. */
export function flipUntil(
  bytes: Buffer,
  accepts: () => boolean,
): { readonly at: number; readonly mask: number } | undefined {
  for (let at = 0; at < bytes.length; at += 1) {
    for (let mask = 1; mask < 256; mask *= 2) {
      bytes[at] = (bytes[at] ?? 0) ^ mask;
      if (accepts()) return { at, mask };
      bytes[at] = (bytes[at] ?? 0) ^ mask;
    }
  }
  return undefined;
}
