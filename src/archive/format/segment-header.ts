import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Version of the layout of this header. It is not the archive's format: that is in FORMAT, and may be higher. */
const HEADER_VERSION = 1;

export const SEGMENT_HEADER_BYTES = 64;
export const ARCHIVE_ID_BYTES = 8;

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x53]); // \x89MKS

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
  MAGIC.copy(bytes, 0);
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
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 4).equals(MAGIC)) return undefined;
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
