import { brotliDecompressSync, constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { catalogError } from '../errors/catalog.ts';

/**
 * Packs text as one zstd frame, without a checksum, whose header states how many bytes it holds.
 *
 * @param utf8 1 byte to 1 MiB
 * @param level 2 or more: the window of level 1 does not span the longest text, and then the header states two sizes
 */
export function packUtf8(utf8: Buffer, level: number): Buffer {
  return zstdCompressSync(utf8, {
    // Room for all of it at once: the default of 128 KiB costs more than packing a short text.
    chunkSize: utf8.length + FRAME_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: level },
  });
}

/** More than the headers of a frame and its blocks take, in bytes. Node.js refuses smaller chunks than this. */
const FRAME_BYTES = 64;

/**
 * Unpacks what `packUtf8` made, or the brotli stream that programs before version 4 of the catalog stored.
 *
 * @param maxBytes bytes of the longest text that was ever packed here; unpacking takes no more memory than that
 * @throws `catalog-damaged` with `reason` for what does not unpack or holds more; a rebuild stores it again
 */
export function unpackUtf8(
  packed: Buffer,
  { maxBytes, file, reason }: { maxBytes: number; file: string; reason: string },
): string {
  try {
    return (isZstd(packed) ? fromZstd : fromBrotli)(packed, maxBytes).toString('utf8');
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason }, error);
  }
}

/**
 * The first bytes of every zstd frame. No brotli stream begins with them: to brotli they start an uncompressed block with
 * padding bits that are not zero (RFC 7932, 9.2).
 */
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

function isZstd(packed: Buffer): boolean {
  return packed.subarray(0, ZSTD_MAGIC.length).equals(ZSTD_MAGIC);
}

function fromZstd(packed: Buffer, maxBytes: number): Buffer {
  const bytes = contentBytes(packed);
  if (bytes > maxBytes) throw new RangeError(`${bytes} bytes of text, but at most ${maxBytes}`);
  const utf8 = zstdDecompressSync(packed, {
    maxOutputLength: bytes,
    chunkSize: bytes + FRAME_BYTES,
  });
  // Node.js 22 returns the beginning of a frame that is cut off instead of throwing.
  if (utf8.length !== bytes) throw new RangeError(`${utf8.length} of ${bytes} bytes of text`);
  return utf8;
}

/**
 * Returns the size in the frame's header (RFC 8878, 3.1.1.1), which is also the size of its window.
 *
 * @throws RangeError for a frame that `packUtf8` does not make
 */
function contentBytes(packed: Buffer): number {
  switch (packed[4]) {
    case 0x20:
      return packed.readUInt8(5);
    case 0x60:
      return packed.readUInt16LE(5) + 256;
    case 0xa0:
      return packed.readUInt32LE(5);
    default:
      throw new RangeError('no size in the frame header');
  }
}

function fromBrotli(packed: Buffer, maxBytes: number): Buffer {
  // Most texts pack to more than a quarter: unpacking then takes one step, and hardly more memory than the text.
  const chunkSize = FRAME_BYTES + Math.min(maxBytes, packed.length * 4);
  return brotliDecompressSync(packed, { maxOutputLength: maxBytes, chunkSize });
}

/** Text kept for snippets: of one message, bytes of UTF-8. What lies beyond is searchable, but shown by no snippet. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * Packs a message's text, cut to `TEXT_BYTES_PER_MESSAGE`; null for no text.
 *
 * Each text is packed by itself: twenty hits then cost twenty times 20 µs wherever they stand, and what is forgotten
 * goes with its row.
 */
export function packText(text: string): Buffer | null {
  // Without half a character at the end. No UTF-16 unit takes less than a byte: those behind need not be looked at.
  const { written } = ENCODER.encodeInto(text.slice(0, TEXT_BYTES_PER_MESSAGE), SCRATCH);
  return written === 0 ? null : packUtf8(SCRATCH.subarray(0, written), LEVEL);
}

const ENCODER = new TextEncoder();
/** Used again for each text: a buffer each would be garbage outside of the heap, which has the collector run often. */
const SCRATCH = Buffer.alloc(TEXT_BYTES_PER_MESSAGE);

/**
 * The level of zstd. Texts of real mail shrink to 0.473 at 26 µs each; level 6 takes them to 0.464 at 43 µs, level 19 to
 * 0.459 at 300 µs.
 */
const LEVEL = 3;

/**
 * Unpacks what `packText` made.
 *
 * @throws `catalog-damaged` for what does not unpack or is longer; a rebuild stores it again
 */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  return unpackUtf8(packed, { maxBytes: TEXT_BYTES_PER_MESSAGE, file, reason: 'text' });
}

/** Texts that are kept unpacked: those of about a dozen pages. */
const KEPT_TEXTS = 256;

/**
 * Unpacks texts of messages and keeps those that were asked for last: one search after another shows many of the same
 * messages, and Node.js takes 12 µs to make a zstd context for each text. A text is recognised by the bytes it was unpacked
 * from, so one that was replaced or forgotten is not given again.
 */
export class UnpackedTexts {
  readonly #kept = new Map<number, { readonly packed: Buffer; readonly text: string }>();

  constructor(private readonly file: string) {}

  /** Returns the text of a message, and throws, as `unpackText`. */
  of(docid: number, packed: Buffer | null): string {
    if (packed === null) return '';
    const known = this.#kept.get(docid);
    const text = known?.packed.equals(packed) ? known.text : unpackText(packed, this.file);
    this.#kept.delete(docid);
    this.#kept.set(docid, { packed, text });
    const oldest = this.#kept.keys().next();
    if (this.#kept.size > KEPT_TEXTS && oldest.done !== true) this.#kept.delete(oldest.value);
    return text;
  }
}
