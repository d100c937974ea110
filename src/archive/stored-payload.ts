import { inflateSync } from 'node:zlib';
import { CODEC, type RecordHeader } from './record-header.ts';

/**
 * The payload as it was before compression; undefined when the stored bytes do not inflate to the stated length, or the
 * codec is not one of this version. The hash is for the caller to compare.
 */
export function inflatePayload(header: RecordHeader, stored: Buffer): Buffer | undefined {
  if (header.codec === CODEC.none) return stored.length === header.rawLength ? stored : undefined;
  if (header.codec !== CODEC.zlib) return undefined;
  try {
    // The ceiling keeps a damaged stream from asking for any amount of memory.
    const raw = inflateSync(stored, { maxOutputLength: Math.max(1, header.rawLength) });
    return raw.length === header.rawLength ? raw : undefined;
  } catch (error) {
    if (isInflateFailure(error)) return undefined;
    throw error;
  }
}

function isInflateFailure(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return false;
  }
  return error.code.startsWith('Z_') || error.code === 'ERR_BUFFER_TOO_LARGE';
}
