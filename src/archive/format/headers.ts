import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { RECORD_KIND } from './records.ts';

/** Version of the layout of this header. It is not the archive's format: that is in FORMAT, and may be higher. */
const HEADER_VERSION = 1;

export const SEGMENT_HEADER_BYTES = 64;
export const ARCHIVE_ID_BYTES = 8;

const SEGMENT_MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x53]); // \x89MKS

/** The first 64 bytes of every segment file. */
export interface SegmentHeader {
  readonly archiveId: Buffer;
  readonly segment: number;
  readonly generation: number;
  /** The commit before the segment's first batch: number 0 and the genesis hash when there is none. */
  readonly previousNumber: number;
  readonly previousHash: string;
}

/** The hash that stands before an archive's first commit; it binds the chain to this one archive. */
export function genesisHash(archiveId: Buffer): string {
  return createHash('sha256').update('mailkeep genesis 1\n').update(archiveId).digest('hex');
}

/**
 * Little-endian: magic 4, version u16, generation u16, archive id 8, segment u32, previous commit's number u64 and
 * hash 32, CRC-32 of the 60 bytes before it.
 */
export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  SEGMENT_MAGIC.copy(bytes, 0);
  bytes.writeUInt16LE(HEADER_VERSION, 4);
  bytes.writeUInt16LE(header.generation, 6);
  header.archiveId.copy(bytes, 8);
  bytes.writeUInt32LE(header.segment, 16);
  bytes.writeBigUInt64LE(BigInt(header.previousNumber), 20);
  bytes.write(header.previousHash, 28, 'hex');
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60);
  return bytes;
}

/** Undefined when the bytes are not an intact header of this format. */
export function decodeSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 4).equals(SEGMENT_MAGIC))
    return undefined;
  if (bytes.readUInt32LE(60) !== crc32(bytes.subarray(0, 60))) return undefined;
  if (bytes.readUInt16LE(4) !== HEADER_VERSION) return undefined;
  return {
    archiveId: Buffer.from(bytes.subarray(8, 16)),
    segment: bytes.readUInt32LE(16),
    generation: bytes.readUInt16LE(6),
    previousNumber: Number(bytes.readBigUInt64LE(20)),
    previousHash: bytes.toString('hex', 28, 60),
  };
}

export const RECORD_HEADER_BYTES = 64;

/** Every kind of record a file may hold: those that carry something, and the two that only sealed files have. */
export const STORED_KIND = { ...RECORD_KIND, block: 5, footer: 6 } as const;

/**
 * How a payload is stored. 2 is reserved for encrypted payloads: readers of this version report it as unreadable. 3 stands
 * only in archives whose FORMAT is 2.
 */
export const CODEC = { none: 0, zlib: 1, reservedForEncryption: 2, zstd: 3 } as const;

/** Set on a record whose payload was removed on purpose: its identity stays, so that the chain still holds. */
export const FLAG_PURGED = 1;

const RECORD_MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]); // \x89MKR
const RECORD_MAGIC_NUMBER = RECORD_MAGIC.readUInt32LE(0);

/** Where the archive id stands within a record header: what a search for lost records looks for. */
export const RECORD_ID_OFFSET = 52;

export interface RecordHeader {
  readonly kind: number;
  readonly codec: number;
  readonly flags: number;
  readonly rawLength: number;
  readonly storedLength: number;
  /** SHA-256 of the payload before compression. */
  readonly hash: Buffer;
  /** CRC-32 of the payload as stored. */
  readonly crc: number;
}

/** The archive and segment that a header belongs to; with its offset they go into the header's CRC. */
export interface RecordSpace {
  readonly archiveId: Buffer;
  readonly segment: number;
}

// 60 bytes of header, then the offset (u64) and segment (u32) that only the CRC sees. A header is valid at one place of
// one archive only, so no bytes within a mail can pass for a record, not even a whole segment that was mailed to oneself.
const sealed = Buffer.alloc(72);

/** Writes a header at `at` of `target`; `offset` is where it will stand in its file. */
export function writeRecordHeader(
  target: Buffer,
  at: number,
  header: RecordHeader,
  space: RecordSpace,
  offset: number,
): void {
  RECORD_MAGIC.copy(sealed, 0);
  sealed[4] = header.kind;
  sealed[5] = header.codec;
  sealed.writeUInt16LE(header.flags, 6);
  sealed.writeUInt32LE(header.rawLength, 8);
  sealed.writeUInt32LE(header.storedLength, 12);
  header.hash.copy(sealed, 16);
  sealed.writeUInt32LE(header.crc, 48);
  space.archiveId.copy(sealed, RECORD_ID_OFFSET);
  sealPlace(space.segment, offset);
  sealed.copy(target, at, 0, 60);
  target.writeUInt32LE(crc32(sealed), at + 60);
}

/**
 * Reads the header at `at` of `source`, which stands at `offset` of its file. Undefined when the bytes there are not an
 * intact header of this archive, segment and offset. The hash is a copy.
 */
export function readRecordHeader(
  source: Buffer,
  at: number,
  space: RecordSpace,
  offset: number,
): RecordHeader | undefined {
  if (at + RECORD_HEADER_BYTES > source.length || source.readUInt32LE(at) !== RECORD_MAGIC_NUMBER) {
    return undefined;
  }
  source.copy(sealed, 0, at, at + 60);
  sealPlace(space.segment, offset);
  if (source.readUInt32LE(at + 60) !== crc32(sealed)) return undefined;
  if (sealed.compare(space.archiveId, 0, 8, RECORD_ID_OFFSET, 60) !== 0) return undefined;
  return {
    kind: sealed.readUInt8(4),
    codec: sealed.readUInt8(5),
    flags: sealed.readUInt16LE(6),
    rawLength: sealed.readUInt32LE(8),
    storedLength: sealed.readUInt32LE(12),
    hash: Buffer.from(sealed.subarray(16, 48)),
    crc: sealed.readUInt32LE(48),
  };
}

function sealPlace(segment: number, offset: number): void {
  sealed.writeUInt32LE(offset >>> 0, 60);
  sealed.writeUInt32LE(Math.floor(offset / 0x1_0000_0000), 64);
  sealed.writeUInt32LE(segment, 68);
}
