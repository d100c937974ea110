import { hash as digest } from 'node:crypto';
import type { DamageReason } from '../../errors/archive.ts';
import { FLAG_PURGED, STORED_KIND } from '../format/record-header.ts';
import { decodeInner, innerLength, TRAILER_BYTES } from '../format/sealed-footer.ts';
import { SEGMENT_HEADER_BYTES } from '../format/segment-header.ts';
import { inflatePayload } from '../format/stored-payload.ts';
import { FileWindow, walkRecords } from './record-walk.ts';
import type { OpenSegment } from './segment-files.ts';

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
}

/** The logical records of a segment's file in order, from one sequential read of it. */
export function* segmentRecords(
  segment: OpenSegment,
  reading: RecordReading,
): Generator<LogicalRecord | LostBytes, void, undefined> {
  const window = new FileWindow(segment.file);
  const sealed = segment.name.generation > 1;
  let footer = false;
  for (const walked of walkRecords(window, segment.header, SEGMENT_HEADER_BYTES)) {
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
        (!reading.digest ||
          reading.chained === true ||
          digest('sha256', block, 'buffer').equals(header.hash));
      if (intact) yield* blockRecords(block, place);
      else yield { what: 'lost', reason: 'payload', ...place };
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
        payload !== undefined &&
        (!reading.digest || digest('sha256', payload, 'buffer').equals(header.hash));
      yield intact
        ? { ...identity, payload, state: 'present' }
        : { ...identity, payload: undefined, state: 'damaged' };
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
    const hash =
      payload === undefined
        ? (inner.hash ?? Buffer.alloc(32))
        : digest('sha256', payload, 'buffer');
    const state = payload === undefined ? 'purged' : 'present';
    yield { what: 'record', kind, rawLength, hash, payload, state, offset, end };
    at += innerLength(rawLength, payload === undefined);
  }
}

function span(offset: number, end: number): { readonly offset: number; readonly end: number } {
  return { offset, end };
}
