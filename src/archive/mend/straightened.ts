import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { type FileLayer, type LogFile, openIfFile, readFully } from '../files/file-layer.ts';
import {
  decodeSegmentHeader,
  RECORD_HEADER_BYTES,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
} from '../format/headers.ts';
import { type SegmentFile, segmentPath } from '../format/layout.ts';
import { inflatePayload } from '../format/stored-payload.ts';
import type { OpenSegment } from '../read/segment-files.ts';
import { FileWindow, walkRecords } from '../read/segment-records.ts';

/** Entry b of the table of CRC-32 (polynomial 0xEDB88320, reflected): what a byte b adds at the end of a message. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

/**
 * Where a single flipped bit explains a wrong CRC-32. CRCs are linear: one bit changes the CRC by a value that depends
 * only on how far it stands from the end, and these are walked through once. Undefined when no single bit does.
 */
export function flippedBit(
  bytes: Buffer,
  wanted: number,
): { readonly at: number; readonly mask: number } | undefined {
  const syndrome = (crc32(bytes) ^ wanted) >>> 0;
  const changes = Uint32Array.from({ length: 8 }, (_, bit) => TABLE[1 << bit] ?? 0);
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const change = changes[bit] ?? 0;
      if (change === syndrome) return { at, mask: 1 << bit };
      changes[bit] = (change >>> 8) ^ (TABLE[change & 0xff] ?? 0);
    }
  }
  return undefined;
}

/** Flips each bit of a small buffer in turn until `accepts` does; the buffer is left as it is accepted, or unchanged. */
export function flipUntil(
  bytes: Buffer,
  accepts: () => boolean,
): { readonly at: number; readonly mask: number } | undefined {
  for (let at = 0; at < bytes.length; at += 1) {
    for (let mask = 1; mask < 256; mask *= 2) {
      bytes[at] = (bytes[at] ?? 0) ^ mask;
      if (accepts()) return { at, mask };
      bytes[at] = (bytes[at] ?? 0) ^ mask;
    }
  }
  return undefined;
}

/**
 * A segment's file as it was before single bits of it flipped, as far as its own CRCs and hashes prove that. The file
 * is not changed: the bits are turned back in what is read. Its footer is not used. Undefined when the segment's
 * header is beyond that. The caller closes the file.
 */
export function openStraightened(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
): OpenSegment | undefined {
  const path = segmentPath(dir, name);
  const file = openIfFile(files, path);
  if (file === undefined) return undefined;
  const patched = new PatchedFile(file);
  const header = straightenHeader(patched, name);
  if (header === undefined) {
    file.close();
    return undefined;
  }
  straightenRecords(patched, header);
  return { file: patched, name, path, header, sealed: undefined };
}

const refuseToWrite = () => Promise.reject(new Error('read only'));

/** A file with some bytes read otherwise than they are. */
class PatchedFile implements LogFile {
  readonly write = refuseToWrite;
  readonly datasync = refuseToWrite;
  readonly truncate = refuseToWrite;
  readonly #patches = new Map<number, number>();

  constructor(private readonly file: LogFile) {}

  /** Turns bits of the byte at `at`. */
  turn(at: number, mask: number): void {
    this.#patches.set(at, (this.#patches.get(at) ?? 0) ^ mask);
  }

  read(target: Uint8Array, position: number): number {
    const got = this.file.read(target, position);
    for (const [at, mask] of this.#patches) {
      if (at >= position && at < position + got) {
        target[at - position] = (target[at - position] ?? 0) ^ mask;
      }
    }
    return got;
  }

  size(): number {
    return this.file.size();
  }

  close(): void {
    this.file.close();
  }
}

function straightenHeader(file: PatchedFile, name: SegmentFile): SegmentHeader | undefined {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  if (readFully(file, bytes, 0) < SEGMENT_HEADER_BYTES) return undefined;
  const read = (): SegmentHeader | undefined => {
    const header = decodeSegmentHeader(bytes);
    const fits = header?.segment === name.segment && header.generation === name.generation;
    return fits ? header : undefined;
  };
  const intact = read();
  if (intact !== undefined) return intact;
  const flipped = flipUntil(bytes, () => read() !== undefined);
  if (flipped === undefined) return undefined;
  file.turn(flipped.at, flipped.mask);
  return read();
}

function straightenRecords(file: PatchedFile, space: RecordSpace): void {
  let from = SEGMENT_HEADER_BYTES;
  // After a header was corrected the walk starts again, since its window holds the old bytes.
  for (let again = true; again; ) {
    again = false;
    for (const walked of walkRecords(new FileWindow(file), space, from)) {
      if (walked.kind === 'gap') {
        if (!straightenRecordHeader(file, space, walked.offset)) continue;
        from = walked.offset;
        again = true;
        break;
      }
      if (walked.stored === undefined) straightenPayload(file, walked.header, walked.offset);
    }
  }
}

function straightenRecordHeader(file: PatchedFile, space: RecordSpace, offset: number): boolean {
  const bytes = Buffer.alloc(RECORD_HEADER_BYTES);
  if (readFully(file, bytes, offset) < RECORD_HEADER_BYTES) return false;
  const flipped = flipUntil(bytes, () => {
    const header = readRecordHeader(bytes, 0, space, offset);
    if (header === undefined) return false;
    return offset + RECORD_HEADER_BYTES + header.storedLength <= file.size();
  });
  if (flipped === undefined) return false;
  file.turn(offset + flipped.at, flipped.mask);
  return true;
}

function straightenPayload(file: PatchedFile, header: RecordHeader, offset: number): void {
  const stored = Buffer.alloc(header.storedLength);
  const start = offset + RECORD_HEADER_BYTES;
  if (readFully(file, stored, start) < stored.length) return;
  const flipped = flippedBit(stored, header.crc);
  if (flipped === undefined) return;
  stored[flipped.at] = (stored[flipped.at] ?? 0) ^ flipped.mask;
  const payload = inflatePayload(header, stored);
  // A CRC can agree by accident; the hash cannot.
  if (payload === undefined || !digest('sha256', payload, 'buffer').equals(header.hash)) return;
  file.turn(start + flipped.at, flipped.mask);
}
