import type { BlobHash, MessageId } from '../../mail/words.ts';
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
