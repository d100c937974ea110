import { crc32 } from 'node:zlib';
import { type LogFile, readFully } from '../files/file-layer.ts';
import {
  RECORD_HEADER_BYTES,
  RECORD_ID_OFFSET,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
} from '../format/record-header.ts';

const WINDOW_BYTES = 4 * 1024 * 1024;

/** Sequential reading of a file through one window of memory that is used again and again. */
export class FileWindow {
  readonly #file: LogFile;
  readonly length: number;
  #memory: Buffer;
  #start = 0;
  #filled = 0;

  constructor(file: LogFile) {
    this.#file = file;
    this.length = file.size();
    this.#memory = Buffer.allocUnsafe(Math.min(WINDOW_BYTES, this.length));
  }

  /** A view of the bytes at `offset`, shorter at the end of the file. Valid until the next call. */
  view(offset: number, length: number): Buffer {
    const end = Math.min(offset + length, this.length);
    if (end <= offset) return this.#memory.subarray(0, 0);
    if (offset < this.#start || end > this.#start + this.#filled) this.#load(offset, end - offset);
    const from = offset - this.#start;
    return this.#memory.subarray(from, Math.min(from + end - offset, this.#filled));
  }

  #load(offset: number, length: number): void {
    const before = this.#memory;
    if (length > before.length) this.#memory = Buffer.allocUnsafe(length);
    // What is there already is kept: walking forward never reads a byte twice.
    const overlap = this.#start + this.#filled - offset;
    const keep = offset >= this.#start && overlap > 0 ? overlap : 0;
    if (keep > 0) before.copy(this.#memory, 0, offset - this.#start, this.#filled);
    this.#start = offset;
    const room = this.#memory.subarray(keep, Math.min(this.#memory.length, this.length - offset));
    this.#filled = keep + readFully(this.#file, room, offset + keep);
  }
}

export interface WalkedRecord {
  readonly kind: 'record';
  readonly offset: number;
  readonly header: RecordHeader;
  /** The payload as stored, a view that is valid until the next step; undefined when its CRC does not match. */
  readonly stored: Buffer | undefined;
}

/** Bytes that are no record, up to the next intact record header or the end of the file. */
export interface WalkedGap {
  readonly kind: 'gap';
  readonly offset: number;
  readonly end: number;
}

/** Every record of a segment file from `offset` on, and what lies between them where something is wrong. */
export function* walkRecords(
  window: FileWindow,
  space: RecordSpace,
  offset: number,
): Generator<WalkedRecord | WalkedGap, void, undefined> {
  let at = offset;
  while (at < window.length) {
    const header = readRecordHeader(window.view(at, RECORD_HEADER_BYTES), 0, space, at);
    const end = header === undefined ? 0 : at + RECORD_HEADER_BYTES + header.storedLength;
    if (header === undefined || end > window.length) {
      const next = findRecord(window, space, at + 1);
      yield { kind: 'gap', offset: at, end: next };
      at = next;
      continue;
    }
    const stored = window.view(at + RECORD_HEADER_BYTES, header.storedLength);
    const intact = stored.length === header.storedLength && crc32(stored) === header.crc;
    yield { kind: 'record', offset: at, header, stored: intact ? stored : undefined };
    at = end;
  }
}

/** The offset of the first intact record header at or after `offset`, or the end of the file. */
export function findRecord(window: FileWindow, space: RecordSpace, offset: number): number {
  let at = offset;
  while (at + RECORD_HEADER_BYTES <= window.length) {
    const bytes = window.view(at, WINDOW_BYTES);
    const id = bytes.indexOf(space.archiveId, RECORD_ID_OFFSET);
    if (id === -1) {
      // An id cut by the end of the view is found whole in the next one.
      at += Math.max(1, bytes.length - RECORD_HEADER_BYTES + 1);
      continue;
    }
    const found = at + id - RECORD_ID_OFFSET;
    const header = readRecordHeader(window.view(found, RECORD_HEADER_BYTES), 0, space, found);
    if (
      header !== undefined &&
      found + RECORD_HEADER_BYTES + header.storedLength <= window.length
    ) {
      return found;
    }
    at = found + 1;
  }
  return window.length;
}
