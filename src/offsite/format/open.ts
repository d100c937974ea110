import { type ObjectDamage, offsiteError } from '../../errors/offsite.ts';
import { decryptChunk, TAG_BYTES } from './cipher.ts';
import { CHUNK_BYTES, framedLength, LENGTH_BYTES, ZEROS } from './frame.ts';
import { type About, HEADER_BYTES, type OpeningKey, readObjectKey } from './header.ts';

/**
 * Opens an object of a copy. Yields authentic bytes only, but the last of them come before the end was seen: until it
 * ended without an error, the object may be cut. That it opens does not show who sealed it: compare its SHA-256 with the
 * manifest's.
 *
 * @throws `copy-object-damaged`, `copy-key-unknown`
 */
export async function* open(
  opening: OpeningKey,
  about: About,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const header = Buffer.alloc(HEADER_BYTES);
  let headed = 0;
  let chunks: Chunks | undefined;
  for await (const piece of sealed) {
    let at = 0;
    if (chunks === undefined) {
      at = Math.min(piece.length, HEADER_BYTES - headed);
      header.set(piece.subarray(0, at), headed);
      headed += at;
      if (headed < HEADER_BYTES) continue;
      chunks = new Chunks(opening, about, header);
    }
    while (at < piece.length) {
      // More follows a full chunk, so it is not the last one.
      if (chunks.isFull) yield chunks.opened(false);
      at += chunks.fill(piece, at);
    }
  }
  if (chunks === undefined) throw damaged(about, 'cut');
  yield chunks.opened(true);
}

/** One chunk after the other of an object, in one buffer. */
class Chunks {
  readonly #about: About;
  readonly #key: Buffer;
  readonly #bound: Buffer;
  readonly #buffer = Buffer.allocUnsafe(CHUNK_BYTES + TAG_BYTES);
  #filled = 0;
  #index = 0;
  /** Bytes that the first chunk announces, and those with their frame; of both, those not seen yet. */
  #contentLeft = 0;
  #framedLeft = 0;

  constructor(opening: OpeningKey, about: About, header: Buffer) {
    const { key, bound } = readObjectKey(opening, about, header);
    this.#about = about;
    this.#key = key;
    this.#bound = bound;
  }

  get isFull(): boolean {
    return this.#filled === this.#buffer.length;
  }

  /** Returns how many bytes of a piece, from an offset on, were taken. */
  fill(piece: Uint8Array, at: number): number {
    const part = piece.subarray(at, at + this.#buffer.length - this.#filled);
    this.#buffer.set(part, this.#filled);
    this.#filled += part.length;
    return part.length;
  }

  /** Returns the content of the chunk, and empties the buffer. */
  opened(last: boolean): Buffer {
    const text = this.#decrypted(last);
    let from = 0;
    if (this.#index === 0) {
      from = LENGTH_BYTES;
      const length = text.length < from ? -1n : text.readBigUInt64LE();
      if (length < 0n || length > Number.MAX_SAFE_INTEGER) throw damaged(this.#about, 'frame');
      this.#contentLeft = Number(length);
      this.#framedLeft = framedLength(this.#contentLeft);
    }
    this.#framedLeft -= text.length;
    if (this.#framedLeft < 0 || (this.#framedLeft === 0) !== last)
      throw damaged(this.#about, 'frame');
    const content = text.subarray(from, from + this.#contentLeft);
    const padding = text.subarray(from + content.length);
    if (!padding.equals(ZEROS.subarray(0, padding.length))) throw damaged(this.#about, 'frame');
    this.#contentLeft -= content.length;
    this.#index += 1;
    this.#filled = 0;
    return content;
  }

  #decrypted(last: boolean): Buffer {
    const sealed = this.#buffer.subarray(0, this.#filled);
    const decrypt = (asLast: boolean) =>
      decryptChunk(this.#key, this.#index, asLast, this.#bound, sealed);
    const text = decrypt(last);
    if (text !== undefined) return text;
    // For the reason only: it is damaged in any case.
    if (decrypt(!last) === undefined) throw damaged(this.#about, 'chunk');
    throw damaged(this.#about, last ? 'cut' : 'appended');
  }
}

function damaged({ name }: About, reason: ObjectDamage) {
  return offsiteError('copy-object-damaged', { name, reason });
}
