import { inflateSync, zstdDecompressSync } from 'node:zlib';
import { BLOB_BYTES } from './recipe.ts';
import { CODEC, type RecordHeader, STORED_KIND } from './record-header.ts';
import { isSingleFrame } from './zstd-frame.ts';

/** Bytes of memory taken before the stored bytes have proven anything. */
const MOST_AT_ONCE = 4 * 1024 * 1024;

const MIB = 1024 * 1024;
/**
 * Largest payload that a compressed record of each kind may inflate to, in bytes: a few bytes of a crafted stream stand
 * for gigabytes. No writer exceeds these. A block of this or an earlier program is below 768 KiB, a commit has about 300
 * bytes, and a footer needs 5 bytes for a record that took at least 64 in its segment.
 */
const MOST_RAW_BYTES: Readonly<Record<number, number>> = {
  [STORED_KIND.blob]: BLOB_BYTES,
  [STORED_KIND.commit]: 64 * 1024,
  [STORED_KIND.block]: 4 * MIB,
  [STORED_KIND.footer]: 64 * MIB,
};
/**
 * For messages and facts, which grow with the parts of a message and the places of a fact. Their JSON is read as one
 * text, for which the JavaScript engine takes at most 512 MiB; a message has up to 1 MiB of literal bytes as well.
 */
const MOST_TEXT_BYTES = 513 * MIB;

/**
 * Returns the payload as it was before compression; undefined when the stored bytes do not inflate to the stated length,
 * that length is more than a record of this kind can have, or the codec is not one of this version. The hash is for the caller to compare.
 */
export function inflatePayload(header: RecordHeader, stored: Buffer): Buffer | undefined {
  const { kind, codec, rawLength } = header;
  if (codec === CODEC.none) return stored.length === rawLength ? stored : undefined;
  if (rawLength > (MOST_RAW_BYTES[kind] ?? MOST_TEXT_BYTES)) return undefined;
  try {
    const raw = decompress(codec, stored, rawLength);
    return raw?.length === rawLength ? raw : undefined;
  } catch (error) {
    if (isInflateFailure(error)) return undefined;
    throw error;
  }
}

function decompress(codec: number, stored: Buffer, rawLength: number): Buffer | undefined {
  // The ceiling keeps a damaged stream from asking for any amount of memory.
  const maxOutputLength = Math.max(1, rawLength);
  // One piece of output for all of it: from the usual pieces of 16 KiB a block is put together from five. Warm,
  // verifying 158 MB of mail took 0.64 s of one core instead of 0.76 s. A zstd frame that fits into its piece is
  // decoded straight into it, without a window of its own.
  const chunkSize = Math.max(64, Math.min(rawLength, MOST_AT_ONCE) + 1);
  if (codec === CODEC.zlib) return inflateSync(stored, { maxOutputLength, chunkSize });
  if (codec !== CODEC.zstd || !isSingleFrame(stored, rawLength)) return undefined;
  return zstdDecompressSync(stored, { maxOutputLength, chunkSize });
}

/** Whether an error of `node:zlib` says that the bytes are wrong, and not that there is no memory. */
function isInflateFailure(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return false;
  }
  const { code } = error;
  if (code === 'Z_MEM_ERROR' || code === 'ZSTD_error_memory_allocation') return false;
  return code.startsWith('Z_') || code.startsWith('ZSTD_error_') || code === 'ERR_BUFFER_TOO_LARGE';
}
