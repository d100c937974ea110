import { type LogFile, readFully } from '../files/file-layer.ts';
import { SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import {
  type ChainState,
  type Problem,
  type ReadBatch,
  type Remainder,
  segmentBatches,
  type Visited,
} from './segment-batches.ts';
import type { OpenSegment } from './segment-files.ts';
import type { LogicalRecord, RecordReading } from './segment-records.ts';

/** Pages that a power cut keeps from the disk read as zeros. */
const PAGE_BYTES = 4096;
/** Fewer zeros than this at the edge of a page prove nothing. */
const HOLE_BYTES = 16;

/**
 * The batches of the segment that is written to, as `segmentBatches` gives them, with one exception, which a power cut
 * can bring about: the system may have written the end of the last batch and not its middle. That batch was never
 * acknowledged, so it belongs to the remainder, but only if it is the last, lies after `seen`, and every wrong record
 * in it lies over a page (or the rest of one) that is all zeros, as unwritten pages are and flipped bits are not.
 *
 * @param seen the highest commit number that the catalog or a checkpoint has seen; 0 for none
 */
export function* batchesToTheEnd<T>(
  segment: OpenSegment,
  seen: number,
  reading: RecordReading,
  visit: (record: LogicalRecord & { readonly payload: Buffer }) => Visited<T>,
): Generator<ReadBatch<T> | Remainder, ChainState, undefined> {
  const { header } = segment;
  let chain: ChainState = { number: header.previousNumber, hash: header.previousHash };
  let offset = SEGMENT_HEADER_BYTES;
  let torn: ReadBatch<T> | undefined;
  for (const item of segmentBatches<T>(segment, reading, visit)) {
    if (item.what === 'remainder') {
      if (torn === undefined) yield item;
      else yield { ...item, offset, problems: [...torn.problems, ...item.problems] };
      return chain;
    }
    if (torn !== undefined) {
      // Another batch behind it: the system does not write ahead of what was never acknowledged.
      yield torn;
      ({ chain, offset } = behind(torn));
      torn = undefined;
    }
    if (item.commit.number > seen && isTorn(segment.file, item.problems)) torn = item;
    else {
      yield item;
      ({ chain, offset } = behind(item));
    }
  }
  if (torn !== undefined) {
    yield { what: 'remainder', offset, end: segment.file.size(), problems: torn.problems };
  }
  return chain;
}

function behind({ commit: { number, hash }, end }: ReadBatch<unknown>) {
  return { chain: { number, hash }, offset: end };
}

function isTorn(file: LogFile, problems: readonly Problem[]): boolean {
  if (problems.length === 0) return false;
  return problems.every(({ reason, offset, end }) => {
    if (reason !== 'bytes' && reason !== 'payload') return false;
    const bytes = Buffer.alloc(end - offset);
    readFully(file, bytes, offset);
    let from = offset;
    while (from < end) {
      const to = Math.min(end, (Math.floor(from / PAGE_BYTES) + 1) * PAGE_BYTES);
      const page = bytes.subarray(from - offset, to - offset);
      if (page.length >= HOLE_BYTES && page.every((byte) => byte === 0)) return true;
      from = to;
    }
    return false;
  });
}
