import { createHash } from 'node:crypto';
import { offsiteError } from '../../errors/offsite.ts';
import { chunkEncryption } from './cipher.ts';
import { CHUNK_BYTES, framedLength, LENGTH_BYTES, sealedLength, ZEROS } from './frame.ts';
import { type About, newObjectKey, type SealingKey } from './header.ts';

/** An object on its way. */
export interface Sealed {
  readonly length: number;
  /** Once only: a second attempt is sealed again, with a new key. */
  readonly bytes: AsyncIterable<Buffer>;
  /** Returns the SHA-256 of all bytes in hexadecimal, once they ended. */
  readonly sha256: () => string;
}

/**
 * Seals bytes for a copy, without keeping them: pieces are encrypted as they come. Closes `plain` if the reader leaves.
 *
 * @param length of `plain`; `bytes` throws `copy-source-changed` if there are more or fewer
 */
export function seal(
  sealing: SealingKey,
  about: About,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): Sealed {
  const digest = createHash('sha256');
  let hex: string | undefined;
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const piece of encrypted(sealing, about, length, plain)) {
      digest.update(piece);
      yield piece;
    }
    hex = digest.digest('hex');
  }
  const sha256 = () => {
    if (hex === undefined) throw new Error(`${about.name} is not sealed yet`);
    return hex;
  };
  return { length: sealedLength(length), bytes: bytes(), sha256 };
}

async function* encrypted(
  sealing: SealingKey,
  about: About,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const { header, key, bound } = newObjectKey(sealing, about);
  yield header;
  let left = framedLength(length);
  const chunkAt = (index: number) => {
    const last = left <= CHUNK_BYTES;
    return { cipher: chunkEncryption(key, index, last, bound), left: last ? left : CHUNK_BYTES };
  };
  let index = 0;
  let chunk = chunkAt(index);
  for await (const piece of framed(about.name, length, plain)) {
    for (let at = 0; at < piece.length; ) {
      const part = piece.subarray(at, at + chunk.left);
      yield chunk.cipher.update(part);
      at += part.length;
      left -= part.length;
      chunk.left -= part.length;
      if (chunk.left > 0) continue;
      chunk.cipher.final();
      yield chunk.cipher.getAuthTag();
      index += 1;
      if (left > 0) chunk = chunkAt(index);
    }
  }
}

async function* framed(
  name: string,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const before = Buffer.alloc(LENGTH_BYTES);
  before.writeBigUInt64LE(BigInt(length));
  yield before;
  let found = 0;
  for await (const piece of plain) {
    found += piece.length;
    if (found > length) break;
    yield piece;
  }
  if (found !== length)
    throw offsiteError('copy-source-changed', { name, announced: length, found });
  yield ZEROS.subarray(0, framedLength(length) - LENGTH_BYTES - length);
}
