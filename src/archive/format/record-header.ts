import { crc32 } from 'node:zlib';
import { RECORD_KIND } from './records.ts';

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

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]); // \x89MKR
const MAGIC_NUMBER = MAGIC.readUInt32LE(0);

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
  MAGIC.copy(sealed, 0);
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
  if (at + RECORD_HEADER_BYTES > source.length || source.readUInt32LE(at) !== MAGIC_NUMBER) {
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
