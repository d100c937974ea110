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
