import type { BlobHash } from '../../mail/words.ts';
import { LineEncoder } from './base64-lines.ts';
import type { MessagePayload } from './recipe.ts';

/** Gives the bytes of a blob, verified by its hash, or throws. */
export type BlobSource = (hash: BlobHash) => Buffer;

/** The recipe asks for other bytes than its record and blobs hold. */
export class RecipeMismatch extends Error {}

/** A stretch of a source: bytes as they are, or bytes to be encoded. */
interface Stretch {
  readonly bytes: Buffer;
  readonly encoder: LineEncoder | undefined;
}

/**
 * The pieces of a message's raw source in order, each at most 4 MiB. Whoever puts them together compares the SHA-256 of
 * the whole with the recipe's.
 *
 * @throws RecipeMismatch when literal bytes or blobs are longer or shorter than the recipe says
 */
export function* rebuildPieces(
  payload: MessagePayload,
  blob: BlobSource,
): Generator<Buffer, void, undefined> {
  for (const { bytes, encoder } of stretches(payload, blob)) {
    if (encoder === undefined) yield bytes;
    else yield* encoder.pieces(bytes);
  }
}

/** The whole raw source in one buffer of its recipe's size. @throws RecipeMismatch */
export function rebuild(payload: MessagePayload, blob: BlobSource): Buffer {
  const { recipe, literal } = payload;
  const [only] = recipe.parts;
  if (recipe.parts.length === 1 && only?.[0] === 'raw' && only[1] === literal.length) {
    return literal;
  }
  const source = Buffer.allocUnsafe(recipe.size);
  let at = 0;
  for (const { bytes, encoder } of stretches(payload, blob)) {
    const length = encoder === undefined ? bytes.length : encoder.lengthOf(bytes.length);
    if (at + length > source.length) throw new RecipeMismatch('the source is longer');
    if (encoder === undefined) bytes.copy(source, at);
    else encoder.write(bytes, source, at);
    at += length;
  }
  if (at !== source.length) throw new RecipeMismatch('the source is shorter');
  return source;
}

function* stretches(
  { recipe, literal }: MessagePayload,
  blob: BlobSource,
): Generator<Stretch, void, undefined> {
  let used = 0;
  for (const part of recipe.parts) {
    if (part[0] === 'raw') {
      const end = used + part[1];
      if (end > literal.length) throw new RecipeMismatch('literal bytes are missing');
      yield { bytes: literal.subarray(used, end), encoder: undefined };
      used = end;
    } else if (part[0] === 'blob') {
      const [, length, hash, chunks = [hash]] = part;
      yield* blobs(chunks, length, blob, undefined);
    } else {
      const [, lineLength, eol, length, hash, chunks = [hash]] = part;
      yield* blobs(chunks, length, blob, new LineEncoder({ lineLength, eol }));
    }
  }
  if (used !== literal.length) throw new RecipeMismatch('literal bytes are left over');
}

function* blobs(
  names: readonly BlobHash[],
  length: number,
  blob: BlobSource,
  encoder: LineEncoder | undefined,
): Generator<Stretch, void, undefined> {
  let left = length;
  for (const name of names) {
    const bytes = blob(name);
    left -= bytes.length;
    yield { bytes, encoder };
  }
  if (left !== 0) throw new RecipeMismatch('blobs have another length');
}
