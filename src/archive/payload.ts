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
import type { LogicalRecord, Visited } from './segment-reader.ts';

/** How base64 text is laid out: characters a line, and what ends a line. */
export interface LineShape {
  readonly lineLength: number;
  readonly eol: 'crlf' | 'lf';
}

/** Bytes encoded at a time: keeps strings short, and a multiple of 3, so that no padding comes in between. */
const STEP = 48 * 1024;

const CR = 13;
const LF = 10;

/**
 * Encodes bytes as lines of base64. The line end stands between lines: none follows the last one. Chunks of one run go
 * through one instance in order; all but the last must be a multiple of 3 bytes long.
 */
export class LineEncoder {
  readonly #lineLength: number;
  readonly #eol: LineShape['eol'];
  readonly #eolBytes: number;
  /** Characters in the line begun; a full line waits for the next character before its end is written. */
  #column = 0;

  constructor(shape: LineShape) {
    this.#lineLength = shape.lineLength;
    this.#eol = shape.eol;
    this.#eolBytes = shape.eol === 'crlf' ? 2 : 1;
  }

  /** How many bytes `write` will put out for a chunk of this length. */
  lengthOf(bytes: number): number {
    return this.#lengthOf(Math.ceil(bytes / 3) * 4);
  }

  /** Writes the chunk's lines into `target` from `at`, where they must have room; returns where they end. */
  write(chunk: Buffer, target: Buffer, at: number): number {
    let to = at;
    for (let from = 0; from < chunk.length; from += STEP) {
      const text = chunk.toString('base64', from, Math.min(from + STEP, chunk.length));
      to = this.#broken(text, target, to);
    }
    return to;
  }

  /** The chunk's lines in pieces of about 64 KiB. */
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

  /**
   * Writes the text to where its last line ends, and then moves line after line to the left: that takes a third of the
   * time of putting the lines together as strings.
   */
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
interface Recipe {
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
type BlobSource = (hash: BlobHash) => Buffer;

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

/** What sealed records are compressed with. */
export type ArchiveCodec = 'zstd' | 'zlib';

export const DEFAULT_CODEC: ArchiveCodec = 'zstd';

/** Compression that saves less than this share is not worth inflating for. */
const LEAST_SAVING = 0.03;

/**
 * Measured over 5,708 messages (103 MB raw) in blocks of 64 KiB: level 1 gives 0.360 of raw at 48 MB/s of one core, 3: 0.353
 * at 51, 6: 0.340 at 41, 9: 0.339 at 35.
 */
const ZLIB_LEVEL = 6;
/**
 * Processor time and size of 190 MB of records: level 6 1.8 s and 81.4 MB, 5 1.5 s and 81.9 MB, 5 with a hash table of
 * 2^17 entries, which fits into the cache of a core, 1.3 s and 82.2 MB, 4 0.8 s and 83.4 MB, 3 0.8 s and 83.5 MB.
 */
const ZSTD_LEVEL = 5;
const ZSTD_HASH_LOG = 17;

const deflateAsync = promisify(deflate);
const zstdAsync = promisify(zstdCompress);

/**
 * Compresses a payload on a thread of the pool. It comes back as it is, with codec 0, where compression does not help.
 * `raw` must not change until the promise has resolved.
 */
export async function compressPayload(
  codec: ArchiveCodec,
  raw: Buffer,
): Promise<{ readonly codec: number; readonly stored: Buffer }> {
  const small = await (codec === 'zstd'
    ? zstdFrame(raw)
    : deflateAsync(raw, { level: ZLIB_LEVEL }));
  const helps = small.length <= raw.length * (1 - LEAST_SAVING);
  return helps ? { codec: CODEC[codec], stored: small } : { codec: CODEC.none, stored: raw };
}

/** One frame that states its content size and has no checksum: a CRC and a SHA-256 are in the record's header. */
function zstdFrame(raw: Buffer): Promise<Buffer> {
  return zstdAsync(raw, {
    params: {
      [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL,
      // zstd makes the table smaller for payloads that do not fill it.
      [constants.ZSTD_c_hashLog]: ZSTD_HASH_LOG,
      [constants.ZSTD_c_contentSizeFlag]: 1,
      [constants.ZSTD_c_checksumFlag]: 0,
    },
    pledgedSrcSize: raw.length,
    // One piece of output: it is never longer than the bound of zstd.
    chunkSize: raw.length + (raw.length >> 8) + 1024,
  });
}

const MAGIC = 0xfd2fb528;
/** Most bytes that one block of a frame stands for. */
const BLOCK_BYTES = 128 * 1024;
/** Largest window a frame may ask for: RFC 8878 recommends that every decoder supports it. */
const WINDOW_BYTES = 8 * 1024 * 1024;
const CHECKSUM_BYTES = 4;
const BLOCK_HEADER_BYTES = 3;
const RLE = 1;
const RESERVED = 3;

/**
 * Returns whether `stored` is exactly one zstd frame of the kind that archives hold: it states `rawLength` as its content
 * size, needs no dictionary and no window above 8 MiB (that of a single segment is its content), and its blocks end where the bytes end. Nothing is decompressed,
 * and nothing is allocated.
 *
 * Decoders differ in what they make of other input: depending on its version, Node ignores bytes behind the frame,
 * reads a second frame, skips skippable ones, or returns what a frame that was cut off holds so far.
 */
export function isSingleFrame(stored: Buffer, rawLength: number): boolean {
  const header = readHeader(stored);
  if (header === undefined || header.contentSize !== rawLength) return false;
  if (header.window > WINDOW_BYTES) return false;
  return endOfBlocks(stored, header) === stored.length;
}

interface FrameHeader {
  readonly length: number;
  readonly contentSize: number;
  readonly window: number;
  readonly hasChecksum: boolean;
}

/** Undefined for bytes that are no frame header, and for frames with a dictionary or without a content size. */
function readHeader(bytes: Buffer): FrameHeader | undefined {
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
    window: isSingleSegment ? contentSize : windowOf(bytes.readUInt8(5)),
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

function windowOf(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

/** Where the frame ends; undefined when its blocks do not add up to one. */
function endOfBlocks(bytes: Buffer, header: FrameHeader): number | undefined {
  let at = header.length;
  let most = 0;
  for (;;) {
    if (at + BLOCK_HEADER_BYTES > bytes.length) return undefined;
    const block = bytes.readUIntLE(at, BLOCK_HEADER_BYTES);
    const type = (block >> 1) & 3;
    const size = block >> 3;
    if (type === RESERVED || size > BLOCK_BYTES) return undefined;
    at += BLOCK_HEADER_BYTES + (type === RLE ? 1 : size);
    most += BLOCK_BYTES;
    if ((block & 1) === 1) break;
  }
  // So few blocks cannot give that much: asking for the memory would be in vain.
  if (most < header.contentSize) return undefined;
  return at + (header.hasChecksum ? CHECKSUM_BYTES : 0);
}

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

/**
 * Frees the memory of a payload that was inflated, if the payload has it for itself. The payload and all views of it are
 * empty afterwards: nobody may be using one.
 */
export function releasePayload(bytes: Buffer | undefined): void {
  const memory = bytes?.buffer;
  if (bytes === undefined || !(memory instanceof ArrayBuffer)) return;
  // Small buffers are parts of a pool. Inflating asks for one byte more than there are.
  const isPart = bytes.byteOffset > 0 || memory.byteLength > bytes.length + 1;
  if (!isPart && memory.byteLength > Buffer.poolSize) memory.transfer(0);
}

/** Whether an error of `node:zlib` says that the bytes are wrong, and not that there is no memory. */
export function isInflateFailure(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return false;
  }
  const { code } = error;
  if (code === 'Z_MEM_ERROR' || code === 'ZSTD_error_memory_allocation') return false;
  return code.startsWith('Z_') || code.startsWith('ZSTD_error_') || code === 'ERR_BUFFER_TOO_LARGE';
}

/** Reads what a record means: a blob by its header, a message by its recipe, a fact by its JSON. */
export function foldRecord(
  record: LogicalRecord & { readonly payload: Buffer },
): Visited<RecordMeaning> {
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

/** The fact that a fact record's payload is; undefined when it is none. */
export function readFact(text: string): Fact | undefined {
  const fact = parseJson(text);
  return isFact(fact) ? fact : undefined;
}
