import { crc32 } from 'node:zlib';
import type { DamageReason } from '../../errors/archive.ts';
import { type ReadFile, readFully } from '../files/file-layer.ts';
import {
  FLAG_PURGED,
  RECORD_HEADER_BYTES,
  RECORD_ID_OFFSET,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  STORED_KIND,
} from '../format/headers.ts';
import { decodeInner, innerLength, TRAILER_BYTES } from '../format/sealed-footer.ts';
import { sha256 } from '../format/sha256.ts';
import { inflatePayload, releasePayload } from '../format/stored-payload.ts';
import type { OpenSegment } from './segment-files.ts';

const WINDOW_BYTES = 4 * 1024 * 1024;

/** Sequential reading of a file through one window of memory that is used again and again. */
export class FileWindow {
  readonly length: number;
  #memory: Buffer;
  #start = 0;
  #filled = 0;

  constructor(private readonly file: ReadFile) {
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
    this.#filled = keep + readFully(this.file, room, offset + keep);
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
interface WalkedGap {
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
function findRecord(window: FileWindow, space: RecordSpace, offset: number): number {
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

/** One record of a segment, whichever file holds it and however. */
export interface LogicalRecord {
  readonly what: 'record';
  readonly kind: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  /** A view, valid until the next record is asked for; undefined when purged or damaged. */
  readonly payload: Buffer | undefined;
  readonly state: 'present' | 'purged' | 'damaged';
  /** Where its stored record (its own, or its block's) begins and ends in the file. */
  readonly offset: number;
  readonly end: number;
}

/** Bytes that gave no records: how many records were lost is not known here. */
export interface LostBytes {
  readonly what: 'lost';
  readonly reason: DamageReason;
  readonly offset: number;
  readonly end: number;
}

export interface RecordReading {
  /** Whether every payload's SHA-256 is computed and compared, or its CRC is enough. */
  readonly digest: boolean;
  /**
   * Leaves out the SHA-256 of whole blocks: each record in one is hashed anyway, and a chain of commits that is
   * compared proves those.
   */
  readonly chained?: boolean;
  /**
   * Gives the memory of inflated payloads back as soon as the next record is asked for: no view of them may be in use
   * then. The garbage collector would let it grow to some 64 MB before it looks for it, and touching fresh memory for each
   * block takes a third of the time of inflating one.
   */
  readonly releases?: boolean;
  /**
   * Receives each inflated block that is intact, and where its record begins in the file, once the record behind it is
   * asked for: its memory is the receiver's then, and no view of it may be in use elsewhere.
   */
  readonly inflated?: ((offset: number, block: Buffer) => void) | undefined;
}

/** A segment as it is read: its file need not be one that can be written. */
export interface ReadSegment extends Pick<OpenSegment, 'name' | 'header' | 'sealed'> {
  readonly file: ReadFile;
}

/**
 * The logical records of a segment's file in order, from one sequential read of it.
 *
 * @param from the offset of the first one
 */
export function* segmentRecords(
  segment: ReadSegment,
  reading: RecordReading,
  from: number = SEGMENT_HEADER_BYTES,
): Generator<LogicalRecord | LostBytes, void, undefined> {
  const window = new FileWindow(segment.file);
  const sealed = segment.name.generation > 1;
  let footer = false;
  for (const walked of walkRecords(window, segment.header, from)) {
    if (walked.kind === 'gap') {
      const isTrailer = footer && walked.end === window.length;
      if (!isTrailer) yield { what: 'lost', reason: 'bytes', ...span(walked.offset, walked.end) };
      else if (walked.end - walked.offset !== TRAILER_BYTES || segment.sealed === undefined) {
        yield { what: 'lost', reason: 'footer', ...span(walked.offset, walked.end) };
      }
      continue;
    }
    const { header, stored, offset } = walked;
    const place = span(offset, offset + 64 + header.storedLength);
    if (header.kind === STORED_KIND.footer) {
      footer = true;
      if (stored === undefined || segment.sealed?.offset !== offset) {
        yield { what: 'lost', reason: 'footer', ...place };
      }
    } else if (header.kind === STORED_KIND.block) {
      const block = stored === undefined ? undefined : inflatePayload(header, stored);
      const intact =
        block !== undefined &&
        (!reading.digest || reading.chained === true || sha256(block).equals(header.hash));
      // What was not compressed is a view of the window.
      const isInflated = block !== stored;
      if (intact) yield* blockRecords(block, place);
      else yield { what: 'lost', reason: 'payload', ...place };
      if (!isInflated) continue;
      if (intact && reading.inflated !== undefined) reading.inflated(offset, block);
      else if (reading.releases === true) releasePayload(block);
    } else {
      const identity = {
        what: 'record',
        kind: header.kind,
        rawLength: header.rawLength,
        hash: header.hash,
        ...place,
      } as const;
      if ((header.flags & FLAG_PURGED) !== 0) {
        yield { ...identity, payload: undefined, state: 'purged' };
        continue;
      }
      const payload = stored === undefined ? undefined : inflatePayload(header, stored);
      const intact =
        payload !== undefined && (!reading.digest || sha256(payload).equals(header.hash));
      yield intact
        ? { ...identity, payload, state: 'present' }
        : { ...identity, payload: undefined, state: 'damaged' };
      if (reading.releases === true && payload !== stored) releasePayload(payload);
    }
  }
  if (sealed && !footer) {
    yield { what: 'lost', reason: 'footer', ...span(window.length, window.length) };
  }
}

function* blockRecords(
  block: Buffer,
  place: { readonly offset: number; readonly end: number },
): Generator<LogicalRecord | LostBytes, void, undefined> {
  let at = 0;
  const { offset, end } = place;
  while (at < block.length) {
    const inner = decodeInner(block, at);
    if (inner === undefined) {
      yield { what: 'lost', reason: 'payload', ...place };
      return;
    }
    const { kind, rawLength, payload } = inner;
    const hash = payload === undefined ? (inner.hash ?? Buffer.alloc(32)) : sha256(payload);
    const state = payload === undefined ? 'purged' : 'present';
    yield { what: 'record', kind, rawLength, hash, payload, state, offset, end };
    at += innerLength(rawLength, payload === undefined);
  }
}

function span(offset: number, end: number): { readonly offset: number; readonly end: number } {
  return { offset, end };
}
