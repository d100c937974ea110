import { logDamaged } from '../../errors/archive.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import { logFolder } from '../format/layout.ts';
import type { Commit } from '../format/records.ts';
import { checkExpected, type ExpectedCommit } from './recovery.ts';
import { type ChainState, segmentBatches } from './segment-batches.ts';
import {
  type OpenSegment,
  openInForce,
  type SegmentListing,
  withSegment,
} from './segment-files.ts';

/** A segment as it stands in generation 1, which is not sealed yet. */
export interface UnsealedSegment {
  readonly segment: number;
  /** The last commit before the segment. */
  readonly previous: ChainState;
  /** Where its last batch ends. */
  readonly offset: number;
  /** Records that it has, which is the ordinal of the next. */
  readonly ordinal: number;
}

/** The end of a log, as what makes its commits durable knows it. */
export interface LogEnd {
  readonly archiveId: Buffer;
  /** The last commit; number 0, the genesis hash and time 0 before the first. */
  readonly commit: Commit;
  /** The segment that is written to. */
  readonly hot: UnsealedSegment;
  /** Segments before it that are sealed nowhere yet, in order: they have to be complete here, or they could not be sealed. */
  readonly closed?: readonly UnsealedSegment[];
}

/** Bytes of generation 1 of a segment that its local file lacks. */
export interface MissingBytes {
  /** `segment`: nothing of the local file can be used, if there is one. */
  readonly what: 'end' | 'segment';
  readonly segment: number;
  readonly from: number;
  readonly until: number;
  /** The commit that ends at `from`. If the log has another one there, the segment has to be supplied. */
  readonly after: ChainState;
}

/** @throws `log-damaged` (`diverged`) when the last segment whose header is intact is another archive's */
export function refuseStranger(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  archiveId: Buffer,
): void {
  for (const [segment, generations] of [...listing].reverse()) {
    const opened = openedIfIntact(files, dir, segment, generations);
    if (opened === undefined) continue;
    opened.file.close();
    if (opened.header.archiveId.equals(archiveId)) return;
    throw logDamaged({ file: opened.path, segment, offset: 0, reason: 'diverged' });
  }
}

/**
 * Returns what a folder lacks of the segments that are not sealed yet. A segment without a batch lacks nothing.
 *
 * @param expected the commit that the catalog has reached, if there is a catalog
 * @throws `log-diverged` when that is a commit of another log
 */
export function missingBytes(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  { hot, closed = [], commit }: LogEnd,
  expected: ExpectedCommit | undefined,
): MissingBytes[] {
  const unsealed = [...closed, hot];
  for (const { previous } of unsealed) checkExpected(previous, expected, logFolder(dir));
  return unsealed.flatMap((one, index) => {
    const last = unsealed[index + 1]?.previous ?? commit;
    const generations = listing.get(one.segment) ?? [];
    const { segment, offset: until } = one;
    const lacks = (what: MissingBytes['what'], from: number, after: ChainState) =>
      from === until && what === 'end' ? [] : [{ what, segment, from, until, after }];
    const whole = () => lacks('segment', SEGMENT_HEADER_BYTES, one.previous);
    if (generations.length === 0) return until === SEGMENT_HEADER_BYTES ? [] : whole();
    // A sealed file is read by ordinals and cannot be appended to.
    if (one === hot && generations.some((generation) => generation > 1)) return whole();
    try {
      return withSegment(files, dir, segment, generations, (opened) => {
        const reached = verified(opened, one, expected?.number);
        if (reached === undefined) return whole();
        const { chain, ordinal, offset, seen } = reached;
        if (chain.number < last.number && offset < until && opened.sealed === undefined) {
          return lacks('end', offset, chain);
        }
        const same =
          chain.number === last.number && chain.hash === last.hash && ordinal === one.ordinal;
        if (!same || (opened.sealed === undefined && offset !== until)) return whole();
        // Only now is it certain that these are the commits of this log.
        if (seen !== undefined) checkExpected(seen, expected, opened.path);
        return [];
      });
    } catch (error) {
      // Not even a header, or the disk does not give the bytes back.
      if (hasCode(error, 'log-damaged')) return whole();
      throw error;
    }
  });
}

/**
 * How far the batches of a segment follow each other without damage, up to the offset at which it ends or the first batch
 * beyond. Undefined where it does not begin as it should, or a batch of another chain follows.
 *
 * @param wanted number of a commit that is returned if it is among them
 */
function verified(
  opened: OpenSegment,
  { previous, offset: until }: UnsealedSegment,
  wanted: number | undefined,
) {
  const { previousNumber, previousHash } = opened.header;
  if (previousNumber !== previous.number || previousHash !== previous.hash) return undefined;
  let reached = { offset: SEGMENT_HEADER_BYTES, ordinal: 0, chain: previous };
  let seen: ChainState | undefined;
  for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    if (item.problems.some(({ reason }) => reason === 'chain' || reason === 'order')) {
      return undefined;
    }
    if (item.problems.length > 0) break;
    if (opened.sealed === undefined && reached.offset >= until) break;
    const { number, hash, ordinal } = item.commit;
    reached = { offset: item.end, ordinal: ordinal + 1, chain: { number, hash } };
    if (number === wanted) seen = reached.chain;
  }
  return { ...reached, seen };
}

function openedIfIntact(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): OpenSegment | undefined {
  try {
    return openInForce(files, dir, segment, generations);
  } catch (error) {
    if (hasCode(error, 'log-damaged')) return undefined;
    throw error;
  }
}
