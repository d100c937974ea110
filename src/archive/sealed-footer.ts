import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { type LogFile, readFully } from './file-system.ts';
import {
  FLAG_PURGED,
  RECORD_HEADER_BYTES,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
  STORED_KIND,
} from './format.ts';
import { inflatePayload } from './payload.ts';
import type { OpenSegment } from './segment-files.ts';
import type { Problem } from './segment-reader.ts';

/** Header of each record in a block, little-endian: kind u8, zero u8, flags u16, raw length u32. */
const INNER_HEADER_BYTES = 8;
const HASH_BYTES = 32;

export function innerLength(rawLength: number, purged: boolean): number {
  return INNER_HEADER_BYTES + (purged ? HASH_BYTES : rawLength);
}

/** Returns a record's header and content as stored in a block. */
export function encodeInner(record: {
  readonly kind: number;
  readonly rawLength: number;
  readonly payload: Buffer | undefined;
  readonly hash: Buffer;
}): readonly [Buffer, Buffer] {
  const head = Buffer.allocUnsafe(INNER_HEADER_BYTES);
  head[0] = record.kind;
  head[1] = 0;
  head.writeUInt16LE(record.payload === undefined ? FLAG_PURGED : 0, 2);
  head.writeUInt32LE(record.rawLength, 4);
  return [head, record.payload ?? record.hash];
}

/** Reads a record from an inflated block. Returns undefined if it is cut off. Only purged records have a hash. */
export function decodeInner(block: Buffer, at: number) {
  if (at + INNER_HEADER_BYTES > block.length) return undefined;
  const kind = block.readUInt8(at);
  const flags = block.readUInt16LE(at + 2);
  const rawLength = block.readUInt32LE(at + 4);
  const purged = (flags & FLAG_PURGED) !== 0;
  const start = at + INNER_HEADER_BYTES;
  const end = start + (purged ? HASH_BYTES : rawLength);
  if (end > block.length) return undefined;
  const bytes = block.subarray(start, end);
  return purged
    ? { kind, flags, rawLength, payload: undefined, hash: bytes }
    : { kind, flags, rawLength, payload: bytes, hash: undefined };
}

/**
 * The trailer at the end of a sealed file: magic 4, offset u64 and total length u32 of the footer, archive ID 8,
 * segment u32, CRC-32 of the preceding 28 bytes.
 */
export const TRAILER_BYTES = 32;

/** Marks purged records in a footer's kind column. */
export const PURGED_BIT = 0x80;

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x46]); // \x89MKF

/** A stored record in a sealed file: a block of several records, or a standalone record. */
export interface Container {
  readonly offset: number;
  readonly records: number;
  readonly block: boolean;
}

/** A footer's data about its file's records, by ordinal. */
interface FooterColumns {
  /** Record kind, combined with `PURGED_BIT` for purged records. */
  readonly kinds: Uint8Array;
  readonly rawLengths: Uint32Array;
  readonly containers: readonly Container[];
}

/**
 * Encodes a footer: number of records u32, number of containers u32, then columns of kinds (u8 each), raw lengths (u32
 * each), container offsets (u32 each) and records per container (u32 each, 0 for a standalone record).
 */
export function encodeFooter({ kinds, rawLengths, containers }: FooterColumns): Buffer {
  const bytes = Buffer.alloc(8 + kinds.length * 5 + containers.length * 8);
  bytes.writeUInt32LE(kinds.length, 0);
  bytes.writeUInt32LE(containers.length, 4);
  bytes.set(kinds, 8);
  let at = 8 + kinds.length;
  for (const length of rawLengths) at = bytes.writeUInt32LE(length, at);
  for (const { offset } of containers) at = bytes.writeUInt32LE(offset, at);
  for (const { records, block } of containers) at = bytes.writeUInt32LE(block ? records : 0, at);
  return bytes;
}

function decodeFooter(bytes: Buffer): FooterColumns | undefined {
  if (bytes.length < 8) return undefined;
  const records = bytes.readUInt32LE(0);
  const count = bytes.readUInt32LE(4);
  if (bytes.length !== 8 + records * 5 + count * 8) return undefined;
  const kinds = Uint8Array.from(bytes.subarray(8, 8 + records));
  const rawLengths = new Uint32Array(records);
  let at = 8 + records;
  for (let i = 0; i < records; i += 1, at += 4) rawLengths[i] = bytes.readUInt32LE(at);
  const containers: Container[] = [];
  let total = 0;
  for (let i = 0; i < count; i += 1, at += 4) {
    const size = bytes.readUInt32LE(at + count * 4);
    containers.push({ offset: bytes.readUInt32LE(at), records: size || 1, block: size > 0 });
    total += size || 1;
  }
  return total === records ? { kinds, rawLengths, containers } : undefined;
}

export function encodeTrailer(space: RecordSpace, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(TRAILER_BYTES);
  MAGIC.copy(bytes, 0);
  bytes.writeBigUInt64LE(BigInt(offset), 4);
  bytes.writeUInt32LE(length, 12);
  space.archiveId.copy(bytes, 16);
  bytes.writeUInt32LE(space.segment, 24);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 28)), 28);
  return bytes;
}

export class SealedIndex {
  readonly records: number;
  readonly containers: readonly Container[];
  /** Container index of each record. */
  readonly #containerOf: Uint32Array;
  /** Offset of each record within its inflated block, or 0 if it is standalone. */
  readonly #inner: Uint32Array;

  constructor(private readonly columns: FooterColumns) {
    this.containers = columns.containers;
    this.records = columns.kinds.length;
    this.#containerOf = new Uint32Array(this.records);
    this.#inner = new Uint32Array(this.records);
    let ordinal = 0;
    for (const [index, { records, block }] of columns.containers.entries()) {
      let inner = 0;
      for (let i = 0; i < records; i += 1, ordinal += 1) {
        this.#containerOf[ordinal] = index;
        this.#inner[ordinal] = inner;
        if (block) inner += innerLength(columns.rawLengths[ordinal] ?? 0, this.isPurged(ordinal));
      }
    }
  }

  isPurged(ordinal: number): boolean {
    return ((this.columns.kinds[ordinal] ?? 0) & PURGED_BIT) !== 0;
  }

  *purged(): Generator<number, void> {
    for (let at = 0; at < this.records; at += 1) if (this.isPurged(at)) yield at;
  }

  /** Returns undefined if the ordinal is out of range. */
  kindOf(ordinal: number): number | undefined {
    const kind = this.columns.kinds[ordinal];
    return kind === undefined ? undefined : kind & ~PURGED_BIT;
  }

  /** Returns the ordinals of all records of one kind in order, including purged ones. */
  ordinalsOf(kind: number): number[] {
    const ordinals: number[] = [];
    for (let at = 0; at < this.records; at += 1) if (this.kindOf(at) === kind) ordinals.push(at);
    return ordinals;
  }

  /** Returns a record's container and its offset within it, or undefined if the ordinal is out of range. */
  find(ordinal: number): { readonly container: Container; readonly inner: number } | undefined {
    const container = this.containers[this.#containerOf[ordinal] ?? -1];
    return container === undefined ? undefined : { container, inner: this.#inner[ordinal] ?? 0 };
  }
}

/** Reads the footer of a sealed file and returns it with its offset. Returns undefined unless it is intact. */
export function readFooter(
  file: LogFile,
  space: RecordSpace,
): { readonly index: SealedIndex; readonly offset: number } | undefined {
  const size = file.size();
  const trailer = Buffer.alloc(TRAILER_BYTES);
  if (size < TRAILER_BYTES || readFully(file, trailer, size - TRAILER_BYTES) < TRAILER_BYTES) {
    return undefined;
  }
  const offset = Number(trailer.readBigUInt64LE(4));
  const length = trailer.readUInt32LE(12);
  if (
    !trailer.equals(encodeTrailer(space, offset, length)) ||
    offset + length + TRAILER_BYTES !== size ||
    length < RECORD_HEADER_BYTES
  ) {
    return undefined;
  }
  const bytes = Buffer.alloc(length);
  if (readFully(file, bytes, offset) < length) return undefined;
  const header = readRecordHeader(bytes, 0, space, offset);
  if (header?.kind !== STORED_KIND.footer) return undefined;
  const payload = inflatePayload(header, bytes.subarray(RECORD_HEADER_BYTES));
  if (payload === undefined || !digest('sha256', payload, 'buffer').equals(header.hash)) {
    return undefined;
  }
  const columns = decodeFooter(payload);
  return columns === undefined ? undefined : { index: new SealedIndex(columns), offset };
}

/** Returns the header of the stored record at an offset, or undefined unless it is intact. */
export function headerAt(
  { file, header: space }: Pick<OpenSegment, 'file' | 'header'>,
  offset: number,
): RecordHeader | undefined {
  const head = Buffer.alloc(RECORD_HEADER_BYTES);
  return readRecordHeader(head.subarray(0, readFully(file, head, offset)), 0, space, offset);
}

/** Yields the ordinals that a file's footer marks as purged. Yields nothing if the footer is damaged. */
export function* purgedOrdinals(file: LogFile, space: RecordSpace): Generator<number, void> {
  yield* readFooter(file, space)?.index.purged() ?? [];
}

/**
 * Checks that containers start at the offsets in the footer of a sealed file. The footer's own checks prove only that
 * it is unchanged. Does not report a damaged footer, because reading the records reveals it.
 */
export function checkFooter(segment: OpenSegment): Problem[] {
  const { sealed } = segment;
  if (sealed === undefined) return [];
  const { index, offset } = sealed;
  const isWrong = index.containers.some((container) => {
    const found = headerAt(segment, container.offset);
    return found === undefined || (found.kind === STORED_KIND.block) !== container.block;
  });
  return isWrong ? [{ reason: 'footer', offset, end: segment.file.size() }] : [];
}
