import { promisify } from 'node:util';
import { deflate, type InputType, inflate, type ZlibOptions } from 'node:zlib';
import { isInflateFailure } from '../archive/payload.ts';

/**
 * Largest batch, in bytes. A batch is closed at 8 MiB at the latest and may then have one more source of 8 MiB, so only a
 * single fact or record of this size comes near. PostgreSQL takes values up to 1 GB; but `pg` copies a value twice, and the
 * limits of a connection have to suffice for it.
 */
export const MOST_BATCH_BYTES = 128 * 1024 * 1024;

const deflateAsync = promisify<InputType, ZlibOptions, Buffer>(deflate);
const inflateAsync = promisify<InputType, ZlibOptions, Buffer>(inflate);

/** Bytes of memory taken before packed bytes have shown anything. */
const MOST_AT_ONCE = 4 * 1024 * 1024;

/** Deflates bytes on a thread of the pool; they must not change until the promise has resolved. */
export async function deflated(raw: Buffer): Promise<Buffer> {
  return deflateAsync(raw, {});
}

/**
 * Inflates bytes on a thread of the pool. Whatever they are, no more memory is taken than `mostRawBytes` need.
 *
 * @returns undefined if they are no deflated bytes, or inflate to more than that
 */
export async function inflated(packed: Buffer, mostRawBytes: number): Promise<Buffer | undefined> {
  try {
    return await inflateAsync(packed, {
      maxOutputLength: Math.max(1, mostRawBytes),
      chunkSize: Math.max(64, Math.min(mostRawBytes, MOST_AT_ONCE) + 1),
    });
  } catch (error) {
    if (isInflateFailure(error)) return undefined;
    throw error;
  }
}
