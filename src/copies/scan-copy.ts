import { createHash } from 'node:crypto';
import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { readSmallFile } from '../archive/file-system.ts';
import { formatPath, segmentPath } from '../archive/format.ts';
import { checkFormat, readBatchesToEnd } from '../archive/recovery.ts';
import { listSegments, segmentDamage, withSegment } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import { commitIn, NO_TORN_BATCH, segmentState } from './copy-log.ts';

export interface ClosedSegment {
  readonly segment: number;
  readonly end: ChainState;
  /** Digest of its purged records; empty if there are none. */
  readonly purged: string;
}

export interface Boundary extends ChainState {
  /** Offset of its end in the generation 1 file. */
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

export interface CopyScan {
  readonly archiveId: string;
  /** Text of FORMAT without its line end. */
  readonly format: string;
  /** Last commit, or number 0 and the genesis hash. `time` is in milliseconds since the epoch. */
  readonly commit: ChainState & { readonly time: number };
  readonly closed: readonly ClosedSegment[];
  /** Current segment, with its commits in order; undefined if the last segment is sealed. */
  readonly open: { readonly segment: number; readonly boundaries: readonly Boundary[] } | undefined;
}

/**
 * Lists an archive's segments, even while a writer is active. Reads the footers and the last segment.
 * @param seen highest commit recorded in the catalog, or 0
 * @throws `log-damaged` if a segment is unreadable or missing; `archive-missing` and other format errors
 */
export function scanArchive(files: FileLayer, dir: string, seen: number): CopyScan {
  checkFormat(files, dir);
  const listing = listSegments(files, dir);
  const last = [...listing.keys()].at(-1);
  if (last === undefined) throw missingError(dir, 1);
  const closed: ClosedSegment[] = [];
  let open: CopyScan['open'];
  let archiveId: string | undefined;
  let end: ChainState | undefined;
  let time = 0;
  for (const [at, segment] of [...listing.keys()].entries()) {
    if (segment !== at + 1) throw missingError(dir, at + 1);
    const state = segmentState(
      files,
      dir,
      segment,
      listing,
      segment === last ? seen : NO_TORN_BATCH,
    );
    if (state === undefined || state.damaged) throw damaged(dir, segment, listing.get(segment));
    archiveId ??= state.archiveId;
    end = state.end;
    time = state.endedAt ?? time;
    if (segment === last && state.generation === 1) {
      const boundaries = commitsOf(files, dir, segment, seen);
      // It has just been sealed, so the next scan finds it closed.
      if (boundaries === undefined) return scanArchive(files, dir, seen);
      open = { segment, boundaries };
      const newest = boundaries.at(-1);
      if (newest !== undefined) ({ time } = newest);
      end = newest ?? end;
    } else {
      closed.push({ segment, end, purged: digestOf(state.purged) });
    }
  }
  if (archiveId === undefined || end === undefined) throw missingError(dir, 1);
  const format = readSmallFile(files, formatPath(dir)).toString('latin1').trimEnd();
  const commit = { number: end.number, hash: end.hash, time };
  return { archiveId, format, commit, closed, open };
}

/** Returns undefined if the segment has been sealed since. */
function commitsOf(
  files: FileLayer,
  dir: string,
  segment: number,
  seen: number,
): Boundary[] | undefined {
  const generations = listSegments(files, dir).get(segment) ?? [];
  return withSegment(files, dir, segment, generations, (opened) => {
    if (opened.sealed !== undefined) return undefined;
    const boundaries: Boundary[] = [];
    for (const item of readBatchesToEnd(opened, seen, { digest: false }, () => undefined)) {
      if (item.what === 'remainder') break;
      const [problem] = item.problems;
      if (problem !== undefined) throw segmentDamage(opened, problem.offset, problem.reason);
      const { number, hash, time } = item.commit;
      boundaries.push({ number, hash, time, offset: item.end });
    }
    return boundaries;
  });
}

/** Returns the archive's commit with this number, or undefined if there is none. */
export function commitAt(
  files: FileLayer,
  dir: string,
  { commit, open, closed }: CopyScan,
  number: number,
): ChainState | undefined {
  const commits = [commit, ...(open?.boundaries ?? []), ...closed.map(({ end }) => end)];
  const within = closed.find(({ end }) => end.number > number);
  return (
    commits.find((one) => one.number === number) ??
    (within && commitIn(files, dir, within.segment, number))
  );
}

function digestOf(ordinals: ReadonlySet<number>): string {
  if (ordinals.size === 0) return '';
  const sorted = [...ordinals].sort((a, b) => a - b);
  return createHash('sha256').update(sorted.join(',')).digest('hex');
}

function missingError(dir: string, segment: number) {
  const file = segmentPath(dir, { segment, generation: 1 });
  return archiveError('log-damaged', { file, segment, offset: 0, reason: 'segment-missing' });
}

function damaged(dir: string, segment: number, generations: readonly number[] | undefined) {
  const file = segmentPath(dir, { segment, generation: generations?.[0] ?? 1 });
  return archiveError('log-damaged', { file, segment, offset: 0, reason: 'bytes' });
}
