import { promisify } from 'node:util';
import { constants, deflate, inflateSync, zstdCompress, zstdDecompressSync } from 'node:zlib';
import type { BlobHash, MessageId } from '../core/types.ts';
import {
  CODEC,
  type Fact,
  isCount,
  isFact,
  isHash,
  isObject,
  parseJson,
  RECORD_KIND,
  type RecordHeader,
  type RecordMeaning,
  STORED_KIND,
} from './format.ts';
import type { LogicalRecord, VisitResult } from './segment-reader.ts';

export interface LineShape {
  /** Characters per line. */
  readonly lineLength: number;
  readonly eol: 'crlf' | 'lf';
}

/** Bytes to encode at a time. A multiple of 3, which avoids padding. */
const STEP = 48 * 1024;

const CR = 13;
const LF = 10;

/**
 * Encodes the chunks of a run as lines of base64, with no line ending after the last line. The length of every chunk but
 * the last must be a multiple of 3.
 */
export class LineEncoder {
  readonly #lineLength: number;
  readonly #eol: LineShape['eol'];
  readonly #eolBytes: number;
  /** Characters in the current line. A full line's ending is written before the next character. */
  #column = 0;

  constructor(shape: LineShape) {
    this.#lineLength = shape.lineLength;
    this.#eol = shape.eol;
    this.#eolBytes = shape.eol === 'crlf' ? 2 : 1;
  }

  /** Returns the length of the text that `write` produces for a chunk of this length. */
  lengthOf(bytes: number): number {
    return this.#lengthOf(Math.ceil(bytes / 3) * 4);
  }

  /** Writes the chunk's lines into `target` at offset `at`, and returns the offset after them. The lines must fit. */
  write(chunk: Buffer, target: Buffer, at: number): number {
    let to = at;
    for (let from = 0; from < chunk.length; from += STEP) {
      const text = chunk.toString('base64', from, Math.min(from + STEP, chunk.length));
      to = this.#broken(text, target, to);
    }
    return to;
  }

  *pieces(chunk: Buffer): Generator<Buffer, void, undefined> {
    for (let from = 0; from < chunk.length; from += STEP) {
      const bytes = chunk.subarray(from, from + STEP);
      const piece = Buffer.allocUnsafe(this.lengthOf(bytes.length));
      this.write(bytes, piece, 0);
      yield piece;
    }
  }

  #lengthOf(characters: number): number {
    if (characters === 0) return 0;
    const breaks = Math.floor((this.#column + characters - 1) / this.#lineLength);
    return characters + breaks * this.#eolBytes;
  }

  /** Writes the text at the end of its range, then moves each line left. Three times as fast as joining strings. */
  #broken(text: string, target: Buffer, at: number): number {
    const length = this.#lineLength;
    const end = at + this.#lengthOf(text.length);
    let from = end - text.length;
    target.write(text, from, 'latin1');
    let to = at;
    while (from < end) {
      if (this.#column === length) {
        if (this.#eol === 'crlf') to = target.writeUInt8(CR, to);
        to = target.writeUInt8(LF, to);
        this.#column = 0;
      }
      const characters = Math.min(length - this.#column, end - from);
      if (to < from) target.copyWithin(to, from, from + characters);
      from += characters;
      to += characters;
      this.#column += characters;
    }
    return to;
  }
}

/** Maximum size of a blob. Longer content is split into several blobs. */
export const BLOB_BYTES = 4 * 1024 * 1024;
/** Blob size for a decoded attachment. A multiple of 3, which encodes without padding. */
export const DECODED_CHUNK_BYTES = 3 * 1024 * 1024;

/**
 * A part of a message's raw source. It is an array, to avoid storing field names in every message's recipe:
 * - `["raw", length]`: the next `length` literal bytes after the recipe in its record
 * - `["blob", length, sha256, chunks?]`: the bytes of a blob
 * - `["b64", lineLength, eol, length, sha256, chunks?]`: the bytes of a blob as base64 in lines of `lineLength`
 *   characters with `eol` (`crlf` or `lf`) between them and none after the last
 *
 * `length` counts bytes (decoded ones for `b64`); `sha256` covers all of them. If there are several blobs, `chunks`
 * lists their names in order; otherwise `sha256` is the blob's name.
 */
export type RecipePart =
  | readonly ['raw', number]
  | readonly ['blob', number, BlobHash]
  | readonly ['blob', number, BlobHash, readonly BlobHash[]]
  | readonly ['b64', number, 'crlf' | 'lf', number, BlobHash]
  | readonly ['b64', number, 'crlf' | 'lf', number, BlobHash, readonly BlobHash[]];

/** Returns the names of the blobs that make up a part. */
export function blobsOf(part: RecipePart): readonly BlobHash[] {
  if (part[0] === 'raw') return [];
  return part[0] === 'blob' ? (part[3] ?? [part[2]]) : (part[5] ?? [part[4]]);
}

/** Instructions for rebuilding a message: the first line of a message record, in canonical JSON. */
interface Recipe {
  readonly parts: readonly RecipePart[];
  /** SHA-256 and size of the raw source. */
  readonly sha256: MessageId;
  readonly size: number;
}

export function recipeLine({ parts, sha256, size }: Recipe): string {
  // The field names are already in canonical order.
  return `${JSON.stringify({ parts, sha256, size })}\n`;
}

export interface MessagePayload {
  readonly recipe: Recipe;
  /** A view of the literal bytes that follow the recipe. */
  readonly literal: Buffer;
}

/** Returns undefined unless the bytes are a message record. */
export function readMessagePayload(payload: Buffer): MessagePayload | undefined {
  const end = payload.indexOf(10);
  if (end === -1) return undefined;
  const value = parseJson(payload.toString('utf8', 0, end));
  if (!isObject(value)) return undefined;
  const { parts, sha256, size } = value;
  if (!Array.isArray(parts) || !isHash(sha256) || !isCount(size)) return undefined;
  if (!parts.every(isRecipePart)) return undefined;
  return { recipe: { parts, sha256, size }, literal: payload.subarray(end + 1) };
}

function isRecipePart(value: unknown): value is RecipePart {
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

/** Returns a blob's bytes after verifying their hash, or throws. */
type BlobSource = (hash: BlobHash) => Buffer;

export class RecipeMismatch extends Error {}

interface Stretch {
  readonly bytes: Buffer;
  /** Undefined for literal bytes. */
  readonly encoder: LineEncoder | undefined;
}

/**
 * Yields the raw source of a message in pieces of at most 4 MiB. The caller must compare its SHA-256 with the recipe's.
 *
 * @throws RecipeMismatch
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

/** Returns the whole raw source. @throws RecipeMismatch */
export function rebuildSource(payload: MessagePayload, blob: BlobSource): Buffer {
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
  if (at < source.length) throw new RecipeMismatch('the source is shorter');
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

export type ArchiveCodec = 'zstd' | 'zlib';

export const DEFAULT_CODEC: ArchiveCodec = 'zstd';

/** A payload is stored uncompressed if compression saves less than this fraction. */
const MIN_SAVING = 0.03;

/**
 * Compressed fraction of the raw size, and speed on one core, for 5,708 messages (103 MB) in blocks of 64 KiB: level 1
 * 0.360 at 48 MB/s, level 3 0.353 at 51, level 6 0.340 at 41, level 9 0.339 at 35.
 */
const ZLIB_LEVEL = 6;
/**
 * Processor time and size for 190 MB of records: level 6 1.8 s and 81.4 MB, level 5 1.5 s and 81.9 MB, level 5 with a
 * hash table of 2^17 entries, which fits into a core's cache, 1.3 s and 82.2 MB, level 4 0.8 s and 83.4 MB.
 */
const ZSTD_LEVEL = 5;
const ZSTD_HASH_LOG = 17;

const deflateAsync = promisify(deflate);
const zstdAsync = promisify(zstdCompress);

/** Compresses a payload on a pool thread. `raw` must not change until the promise settles. */
export async function compressPayload(
  codec: ArchiveCodec,
  raw: Buffer,
): Promise<{ readonly codec: number; readonly stored: Buffer }> {
  const small = await (codec === 'zstd'
    ? zstdFrame(raw)
    : deflateAsync(raw, { level: ZLIB_LEVEL }));
  const isWorthwhile = small.length <= raw.length * (1 - MIN_SAVING);
  return isWorthwhile ? { codec: CODEC[codec], stored: small } : { codec: CODEC.none, stored: raw };
}

/** Creates a frame with its content size. It needs no checksum: the record header has a CRC and a SHA-256. */
function zstdFrame(raw: Buffer): Promise<Buffer> {
  return zstdAsync(raw, {
    params: {
      [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL,
      // zstd shrinks the table for smaller payloads.
      [constants.ZSTD_c_hashLog]: ZSTD_HASH_LOG,
      [constants.ZSTD_c_contentSizeFlag]: 1,
      [constants.ZSTD_c_checksumFlag]: 0,
    },
    pledgedSrcSize: raw.length,
    // zstd's upper bound, so that the output arrives in one piece.
    chunkSize: raw.length + (raw.length >> 8) + 1024,
  });
}

const MAGIC = 0xfd2fb528;
/** Maximum size of a block's content within a frame. */
const BLOCK_BYTES = 128 * 1024;
/** The largest window that every decoder should support (RFC 8878). */
const WINDOW_BYTES = 8 * 1024 * 1024;
const CHECKSUM_BYTES = 4;
const BLOCK_HEADER_BYTES = 3;
const RLE = 1;
const RESERVED = 3;

/**
 * Reports whether `stored` is exactly one zstd frame as written to archives: its content size is `rawLength`, it has no
 * dictionary and a window of at most 8 MiB, and its last block ends where the bytes end. Decompresses nothing. Node.js
 * handles other input inconsistently. Depending on its version, it ignores bytes after the frame, reads a second frame,
 * skips skippable frames or returns the content of a truncated frame.
 */
export function isSingleFrame(stored: Buffer, rawLength: number): boolean {
  const header = readHeader(stored);
  if (header === undefined || header.contentSize !== rawLength) return false;
  if (header.window > WINDOW_BYTES) return false;
  return endOfBlocks(stored, header) === stored.length;
}

/** Returns undefined if the bytes are not a frame header, or the frame has a dictionary or no content size. */
function readHeader(bytes: Buffer) {
  if (bytes.length < 5 || bytes.readUInt32LE(0) !== MAGIC) return undefined;
  const descriptor = bytes.readUInt8(4);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const hasReservedBit = (descriptor & 0x08) !== 0;
  const hasDictionary = (descriptor & 0x03) !== 0;
  if (hasReservedBit || hasDictionary) return undefined;
  const at = isSingleSegment ? 5 : 6;
  const sizeFlag = descriptor >> 6;
  if (sizeFlag === 0 && !isSingleSegment) return undefined;
  const sizeBytes = 1 << sizeFlag;
  if (bytes.length < at + sizeBytes) return undefined;
  const contentSize = readContentSize(bytes, at, sizeBytes);
  return {
    length: at + sizeBytes,
    contentSize,
    window: isSingleSegment ? contentSize : windowSize(bytes.readUInt8(5)),
    hasChecksum: (descriptor & 0x04) !== 0,
  };
}

function readContentSize(bytes: Buffer, at: number, length: number): number {
  switch (length) {
    case 1:
      return bytes.readUInt8(at);
    case 2:
      return bytes.readUInt16LE(at) + 256;
    case 4:
      return bytes.readUInt32LE(at);
    default:
      return Number(bytes.readBigUInt64LE(at));
  }
}

function windowSize(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

/** Returns undefined if the blocks do not form a frame. */
function endOfBlocks(
  bytes: Buffer,
  header: NonNullable<ReturnType<typeof readHeader>>,
): number | undefined {
  let at = header.length;
  let capacity = 0;
  for (;;) {
    if (at + BLOCK_HEADER_BYTES > bytes.length) return undefined;
    const block = bytes.readUIntLE(at, BLOCK_HEADER_BYTES);
    const type = (block >> 1) & 3;
    const size = block >> 3;
    if (type === RESERVED || size > BLOCK_BYTES) return undefined;
    at += BLOCK_HEADER_BYTES + (type === RLE ? 1 : size);
    capacity += BLOCK_BYTES;
    if ((block & 1) === 1) break;
  }
  // Do not allocate memory for content that so few blocks cannot hold.
  if (capacity < header.contentSize) return undefined;
  return at + (header.hasChecksum ? CHECKSUM_BYTES : 0);
}

/** Maximum number of bytes to allocate before the stored bytes have been validated. */
const MAX_AT_ONCE = 4 * 1024 * 1024;

const MIB = 1024 * 1024;
/**
 * Maximum inflated size by kind, because a few crafted bytes can inflate to gigabytes. No writer exceeds these limits.
 * Blocks from all versions are smaller than 768 KiB, and a commit takes about 300 bytes. A footer needs 5 bytes for
 * each record, which took at least 64 in its segment.
 */
const MAX_RAW_BYTES: Readonly<Record<number, number>> = {
  [STORED_KIND.blob]: BLOB_BYTES,
  [STORED_KIND.commit]: 64 * 1024,
  [STORED_KIND.block]: 4 * MIB,
  [STORED_KIND.footer]: 64 * MIB,
};
/**
 * Limit for messages and facts, which grow with a message's parts and a fact's places. JavaScript limits their JSON to
 * 512 MiB, and a message can also contain up to 1 MiB of literal bytes.
 */
const MAX_TEXT_BYTES = 513 * MIB;

/**
 * Returns undefined if the stored bytes do not inflate to the length in the header, the length exceeds the kind's
 * limit, or the codec is unknown. The caller compares the hash.
 */
export function inflatePayload(header: RecordHeader, stored: Buffer): Buffer | undefined {
  const { kind, codec, rawLength } = header;
  if (codec === CODEC.none) return stored.length === rawLength ? stored : undefined;
  if (rawLength > (MAX_RAW_BYTES[kind] ?? MAX_TEXT_BYTES)) return undefined;
  try {
    const raw = decompress(codec, stored, rawLength);
    return raw?.length === rawLength ? raw : undefined;
  } catch (error) {
    if (isInflateFailure(error)) return undefined;
    throw error;
  }
}

function decompress(codec: number, stored: Buffer, rawLength: number): Buffer | undefined {
  const maxOutputLength = Math.max(1, rawLength);
  // Produces the output in one piece. With Node's 16 KiB, a block is joined from five pieces, and verifying 158 MB of
  // mail took 0.76 s of one core instead of 0.64 s. A zstd frame that fits into a piece is decoded into it directly,
  // without a window.
  const chunkSize = Math.max(64, Math.min(rawLength, MAX_AT_ONCE) + 1);
  if (codec === CODEC.zlib) return inflateSync(stored, { maxOutputLength, chunkSize });
  if (codec !== CODEC.zstd || !isSingleFrame(stored, rawLength)) return undefined;
  return zstdDecompressSync(stored, { maxOutputLength, chunkSize });
}

/** Frees the memory of an inflated payload unless it is shared. No view of the payload may be in use. */
export function releasePayload(bytes: Buffer | undefined): void {
  const memory = bytes?.buffer;
  if (bytes === undefined || !(memory instanceof ArrayBuffer)) return;
  // Small buffers are slices of a pool. Inflating allocates one extra byte.
  const isSlice = bytes.byteOffset > 0 || memory.byteLength > bytes.length + 1;
  if (!isSlice && memory.byteLength > Buffer.poolSize) memory.transfer(0);
}

/** Reports whether an error from `node:zlib` means invalid bytes rather than a lack of memory. */
function isInflateFailure(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return false;
  }
  const { code } = error;
  if (code === 'Z_MEM_ERROR' || code === 'ZSTD_error_memory_allocation') return false;
  return code.startsWith('Z_') || code.startsWith('ZSTD_error_') || code === 'ERR_BUFFER_TOO_LARGE';
}

export function interpretRecord(
  record: LogicalRecord & { readonly payload: Buffer },
): VisitResult<RecordMeaning> {
  switch (record.kind) {
    case RECORD_KIND.blob:
      return {
        value: { kind: 'blob', hash: record.hash.toString('hex'), size: record.rawLength },
      };
    case RECORD_KIND.message: {
      const message = readMessagePayload(record.payload);
      if (message === undefined) return { problem: 'recipe' };
      const { sha256, size } = message.recipe;
      return { value: { kind: 'message', id: sha256, size } };
    }
    case RECORD_KIND.fact: {
      const fact = readFact(record.payload.toString('utf8'));
      return fact === undefined ? { problem: 'fact' } : { value: { kind: 'fact', fact } };
    }
    default:
      return { problem: 'bytes' };
  }
}

/** Returns undefined unless the text is a fact. */
export function readFact(text: string): Fact | undefined {
  const fact = parseJson(text);
  return isFact(fact) ? fact : undefined;
}
