import { createHash, hash as digest, type Hash } from 'node:crypto';
import type { BlobHash } from '../../mail/words.ts';
import { LineEncoder, type LineShape } from '../format/base64-lines.ts';
import { BLOB_BYTES, DECODED_CHUNK_BYTES, type RecipePart } from '../format/recipe.ts';

/** Literal bytes that may stand in a message's own record; a piece that does not fit any more becomes blobs. */
export const INLINE_LITERAL_BYTES = 1024 * 1024;

export interface RecipeSink {
  /** Takes a blob to be stored, unless it is stored already. The bytes must not change any more. */
  blob(hash: BlobHash, bytes: Buffer): void;
  /** Sees every byte of the source as a reader will rebuild it from what was stored, in order. */
  rebuilt?(bytes: Buffer): void;
}

/**
 * Turns a source, added piece by piece in order, into the parts of a recipe. Pieces are kept by reference until the
 * part they belong to ends.
 */
export class RecipeBuilder {
  readonly #parts: RecipePart[] = [];
  readonly #inline: Buffer[] = [];
  #inlineBytes = 0;
  #literal: Buffer[] = [];
  #literalBytes = 0;
  #literalChunks: Chunker | undefined;
  #run: { readonly shape: LineShape; readonly chunks: Chunker } | undefined;

  constructor(private readonly sink: RecipeSink) {}

  literal(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#literalChunks === undefined) {
      this.#literal.push(bytes);
      this.#literalBytes += bytes.length;
      if (this.#inlineBytes + this.#literalBytes <= INLINE_LITERAL_BYTES) return;
      this.#literalChunks = new Chunker(BLOB_BYTES, this.sink, (chunk) => [chunk]);
      for (const piece of this.#literal) this.#literalChunks.push(piece);
      this.#literal = [];
      return;
    }
    this.#literalBytes += bytes.length;
    this.#literalChunks.push(bytes);
  }

  beginRun(shape: LineShape): void {
    this.#endLiteral();
    const encoder = new LineEncoder(shape);
    const encode = (chunk: Buffer) => encoder.pieces(chunk);
    this.#run = { shape, chunks: new Chunker(DECODED_CHUNK_BYTES, this.sink, encode) };
  }

  /** Decoded bytes of the run begun. */
  run(decoded: Buffer): void {
    this.#run?.chunks.push(decoded);
  }

  endRun(): void {
    if (this.#run === undefined) return;
    const { shape, chunks } = this.#run;
    const { length, hash, names } = chunks.end();
    this.#parts.push(
      names.length === 1
        ? ['b64', shape.lineLength, shape.eol, length, hash]
        : ['b64', shape.lineLength, shape.eol, length, hash, names],
    );
    this.#run = undefined;
  }

  /** The recipe's parts and the literal bytes of the message's own record. */
  finish(): { readonly parts: readonly RecipePart[]; readonly literal: readonly Buffer[] } {
    this.#endLiteral();
    return { parts: this.#parts, literal: this.#inline };
  }

  #endLiteral(): void {
    if (this.#literalBytes === 0) return;
    if (this.#literalChunks === undefined) {
      this.#parts.push(['raw', this.#literalBytes]);
      for (const piece of this.#literal) {
        this.#inline.push(piece);
        this.sink.rebuilt?.(piece);
      }
      this.#inlineBytes += this.#literalBytes;
      this.#literal = [];
    } else {
      const { length, hash, names } = this.#literalChunks.end();
      this.#parts.push(names.length === 1 ? ['blob', length, hash] : ['blob', length, hash, names]);
      this.#literalChunks = undefined;
    }
    this.#literalBytes = 0;
  }
}

/** Cuts a stream of bytes into blobs of one size. */
class Chunker {
  readonly #names: BlobHash[] = [];
  #pieces: Buffer[] = [];
  #have = 0;
  #length = 0;
  #first: Buffer | undefined;
  #whole: Hash | undefined;

  constructor(
    private readonly size: number,
    private readonly sink: RecipeSink,
    private readonly asSource: (chunk: Buffer) => Iterable<Buffer>,
  ) {}

  push(bytes: Buffer): void {
    let from = 0;
    while (from < bytes.length) {
      const to = Math.min(bytes.length, from + this.size - this.#have);
      this.#pieces.push(bytes.subarray(from, to));
      this.#have += to - from;
      from = to;
      if (this.#have === this.size) this.#emit();
    }
  }

  end(): { readonly length: number; readonly hash: BlobHash; readonly names: readonly BlobHash[] } {
    if (this.#have > 0) this.#emit();
    const [only = digest('sha256', Buffer.alloc(0), 'hex')] = this.#names;
    return {
      length: this.#length,
      hash: this.#whole === undefined ? only : this.#whole.digest('hex'),
      names: this.#names,
    };
  }

  #emit(): void {
    const [only] = this.#pieces;
    const chunk =
      this.#pieces.length === 1 && only !== undefined ? only : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#have = 0;
    this.#length += chunk.length;
    const name = digest('sha256', chunk, 'hex');
    this.#names.push(name);
    // The hash of the whole is needed only where there are several chunks, and most have one.
    if (this.#first === undefined) {
      this.#first = chunk;
    } else {
      this.#whole ??= createHash('sha256').update(this.#first);
      this.#whole.update(chunk);
    }
    this.sink.blob(name, chunk);
    if (this.sink.rebuilt === undefined) return;
    for (const piece of this.asSource(chunk)) this.sink.rebuilt(piece);
  }
}
