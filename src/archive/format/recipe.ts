import type { BlobHash, MessageId } from '../../mail/words.ts';
import { LineEncoder } from './base64-lines.ts';
import { isCount, isHash, isObject, parseJson } from './json-shape.ts';

/** Blobs are at most this long; longer ones are chunked. */
export const BLOB_BYTES = 4 * 1024 * 1024;
/** Chunks of a decoded attachment: a multiple of 3, so that each encodes by itself without padding. */
export const DECODED_CHUNK_BYTES = 3 * 1024 * 1024;

/**
 * A piece of a message's raw source. Lists are short of names because every message has one:
 * - `["raw", length]`: the next `length` of the literal bytes that follow the recipe in its record
 * - `["blob", length, sha256, chunks?]`: the bytes of a blob
 * - `["b64", lineLength, eol, length, sha256, chunks?]`: the bytes of a blob as base64 in lines of `lineLength`
 *   characters with `eol` (`crlf` or `lf`) between them and none after the last
 *
 * `length` counts bytes (decoded ones for `b64`), `sha256` is that of all of them together. Where they are more than one
 * blob, `chunks` names the blobs in order; else the one blob's name is `sha256`.
 */
export type RecipePart =
  | readonly ['raw', number]
  | readonly ['blob', number, BlobHash]
  | readonly ['blob', number, BlobHash, readonly BlobHash[]]
  | readonly ['b64', number, 'crlf' | 'lf', number, BlobHash]
  | readonly ['b64', number, 'crlf' | 'lf', number, BlobHash, readonly BlobHash[]];

/** How to rebuild a message: the first line of a message record, canonical JSON. */
export interface Recipe {
  readonly parts: readonly RecipePart[];
  /** SHA-256 of the raw source: the message's id. */
  readonly sha256: MessageId;
  /** Bytes of the raw source. */
  readonly size: number;
}

/** The recipe's line with its LF. */
export function recipeLine({ parts, sha256, size }: Recipe): string {
  // The field names stand in canonical order already.
  return `${JSON.stringify({ parts, sha256, size })}\n`;
}

export interface MessagePayload {
  readonly recipe: Recipe;
  /** The literal bytes behind the recipe's line: a view of the payload. */
  readonly literal: Buffer;
}

/** Undefined when the payload is not a message's. */
export function readMessagePayload(payload: Buffer): MessagePayload | undefined {
  const end = payload.indexOf(10);
  if (end === -1) return undefined;
  const value = parseJson(payload.toString('utf8', 0, end));
  if (!isObject(value)) return undefined;
  const { parts, sha256, size } = value;
  if (!Array.isArray(parts) || !isHash(sha256) || !isCount(size)) return undefined;
  if (!parts.every(isPart)) return undefined;
  return { recipe: { parts, sha256, size }, literal: payload.subarray(end + 1) };
}

function isPart(value: unknown): value is RecipePart {
  if (!Array.isArray(value)) return false;
  const fields: readonly unknown[] = value;
  const [name, first, second, third, fourth, fifth] = fields;
  switch (name) {
    case 'raw':
      return isCount(first) && fields.length === 2;
    case 'blob':
      return isCount(first) && isHash(second) && isChunks(third) && fields.length <= 4;
    case 'b64':
      return (
        isCount(first) &&
        first > 0 &&
        (second === 'crlf' || second === 'lf') &&
        isCount(third) &&
        isHash(fourth) &&
        isChunks(fifth) &&
        fields.length <= 6
      );
    default:
      return false;
  }
}

function isChunks(value: unknown): boolean {
  return value === undefined || (Array.isArray(value) && value.every(isHash));
}

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
  const length = rebuildInto(source, payload, blob);
  if (length > source.length) throw new RecipeMismatch('the source is longer');
  if (length < source.length) throw new RecipeMismatch('the source is shorter');
  return source;
}

/**
 * Writes the raw source to the beginning of `target` and returns its length. A source that is longer than `target` is
 * not written completely.
 *
 * @throws RecipeMismatch when literal bytes or blobs are longer or shorter than the recipe says
 */
export function rebuildInto(target: Buffer, payload: MessagePayload, blob: BlobSource): number {
  let at = 0;
  for (const { bytes, encoder } of stretches(payload, blob)) {
    const length = encoder === undefined ? bytes.length : encoder.lengthOf(bytes.length);
    if (at + length <= target.length) {
      if (encoder === undefined) bytes.copy(target, at);
      else encoder.write(bytes, target, at);
    }
    at += length;
  }
  return at;
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
