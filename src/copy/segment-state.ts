import type { FileLayer } from '../archive/files/file-layer.ts';
import { type CommitRecord, decodeCommit } from '../archive/format/records.ts';
import { openAgain } from '../archive/read/scan-log.ts';
import type { ChainState } from '../archive/read/segment-batches.ts';
import { SegmentCache } from '../archive/read/segment-cache.ts';
import {
  listSegments,
  type OpenSegment,
  type SegmentListing,
} from '../archive/read/segment-files.ts';
import { batchesToTheEnd } from '../archive/read/torn-batch.ts';
import { errnoName } from '../errors/mailkeep-error.ts';

/** How far a segment goes in one archive, and what is left of it. */
export interface SegmentState {
  readonly generation: number;
  readonly archiveId: string;
  /** Its last commit. */
  readonly end: ChainState;
  /** When that was; milliseconds since the epoch. Null where the segment has no commit yet. */
  readonly endedAt: number | null;
  /** Ordinals of records that were purged; of sealed files only. */
  readonly purged: ReadonlySet<number>;
  /** Something before that commit is not as it was written. */
  readonly damaged: boolean;
}

/**
 * The highest commit after which a batch may be torn: what a power cut left of the last one was never acknowledged. No
 * batch is torn where it is `NEVER_TORN`.
 */
export const NEVER_TORN = Number.POSITIVE_INFINITY;

/**
 * Undefined where the segment is not there, or no file of it has an intact header.
 *
 * @param listing what the folder held a moment ago; a file that went away since is looked for again
 * @param seen the highest commit that is known to have been acknowledged, in the last segment; else `NEVER_TORN`
 */
export function segmentState(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
  seen: number,
): SegmentState | undefined {
  try {
    return stateIn(files, dir, segment, listing, seen);
  } catch (error) {
    if (errnoName(error) !== 'ENOENT') throw error;
    return stateIn(files, dir, segment, listSegments(files, dir), seen);
  }
}

function stateIn(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
  seen: number,
): SegmentState | undefined {
  const opened = openAgain(files, dir, segment, listing);
  if (opened === undefined) return undefined;
  try {
    return stateOf(files, dir, opened, listing, seen);
  } finally {
    opened.file.close();
  }
}

function stateOf(
  files: FileLayer,
  dir: string,
  opened: OpenSegment,
  listing: SegmentListing,
  seen: number,
): SegmentState {
  const { header, name, sealed } = opened;
  const known = { generation: name.generation, archiveId: header.archiveId.toString('hex') };
  if (sealed !== undefined) {
    const purged = new Set<number>();
    for (let at = 0; at < sealed.index.records; at += 1)
      if (sealed.index.isPurged(at)) purged.add(at);
    const cache = new SegmentCache(files, dir, listing);
    const commit = lastCommit(cache, name.segment, sealed.index.records - 1);
    if (commit !== undefined) {
      const { number, hash, time } = commit;
      return { ...known, end: { number, hash }, endedAt: time, purged, damaged: false };
    }
  }
  let end: ChainState = { number: header.previousNumber, hash: header.previousHash };
  let endedAt: number | null = null;
  let damaged = name.generation > 1;
  for (const item of batchesToTheEnd(opened, seen, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    damaged = damaged || item.problems.length > 0;
    end = { number: item.commit.number, hash: item.commit.hash };
    endedAt = item.commit.time;
  }
  return { ...known, end, endedAt, purged: new Set(), damaged };
}

/** A sealed segment ends with a commit. */
function lastCommit(
  cache: SegmentCache,
  segment: number,
  ordinal: number,
): CommitRecord | undefined {
  try {
    const found = cache.fetch({ segment, ordinal, offset: 0 });
    return found.state === 'present' ? decodeCommit(found.payload) : undefined;
  } finally {
    cache.forget();
  }
}
