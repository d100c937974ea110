import type { BlobHash } from '../mail/words.ts';
import { LineEncoder } from './base64-lines.ts';
import type { MessagePayload } from './recipe.ts';

/** Gives the bytes of a blob, verified by its hash, or throws. */
export type BlobSource = (hash: BlobHash) => Buffer;

/** The recipe asks for other bytes than its record and blobs hold. */
export class RecipeMismatch extends Error {}

/**
 * The pieces of a message's raw source in order, each at most about 6 MB. Whoever puts them together compares the SHA-256
 * of the whole with the recipe's.
 *
 * @throws RecipeMismatch when literal bytes or blobs are longer or shorter than the recipe says
 */
export function* rebuildPieces(
  { recipe, literal }: MessagePayload,
  blob: BlobSource,
): Generator<Buffer, void, undefined> {
  let used = 0;
  for (const part of recipe.parts) {
    if (part[0] === 'raw') {
      if (used + part[1] > literal.length) throw new RecipeMismatch('literal bytes are missing');
      yield literal.subarray(used, used + part[1]);
      used += part[1];
      continue;
    }
    if (part[0] === 'blob') {
      const [, length, hash, chunks = [hash]] = part;
      yield* sized(chunks, length, blob);
      continue;
    }
    const [, lineLength, eol, length, hash, chunks = [hash]] = part;
    const encoder = new LineEncoder({ lineLength, eol });
    for (const chunk of sized(chunks, length, blob)) {
      const text = Buffer.allocUnsafe(encoder.lengthOf(chunk.length));
      encoder.write(chunk, text, 0);
      yield text;
    }
  }
  if (used !== literal.length) throw new RecipeMismatch('literal bytes are left over');
}

function* sized(
  chunks: readonly BlobHash[],
  length: number,
  blob: BlobSource,
): Generator<Buffer, void, undefined> {
  let left = length;
  for (const hash of chunks) {
    const bytes = blob(hash);
    left -= bytes.length;
    yield bytes;
  }
  if (left !== 0) throw new RecipeMismatch('blobs have another length');
}

/** The whole raw source in one buffer of its recipe's size. */
export function rebuild(payload: MessagePayload, blob: BlobSource): Buffer {
  const { recipe, literal } = payload;
  const [only] = recipe.parts;
  if (recipe.parts.length === 1 && only?.[0] === 'raw' && only[1] === literal.length) {
    return literal;
  }
  const source = Buffer.allocUnsafe(recipe.size);
  let at = 0;
  for (const piece of rebuildPieces(payload, blob)) {
    if (at + piece.length > source.length) throw new RecipeMismatch('the source is longer');
    at += piece.copy(source, at);
  }
  if (at !== source.length) throw new RecipeMismatch('the source is shorter');
  return source;
}
