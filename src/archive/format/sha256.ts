import { hash } from 'node:crypto';

/**
 * Returns the SHA-256 of some bytes as 32 bytes of a pool. `hash` with the encoding `buffer` gives each digest memory of
 * its own, which takes twice as long for a small record and lets the garbage collector run more often.
 */
export function sha256(bytes: Buffer): Buffer {
  return Buffer.from(hash('sha256', bytes, 'binary'), 'binary');
}
