import { createHash } from 'node:crypto';
import type { FileLayer } from '../archive/file-system.ts';
import { readSmallFile } from '../archive/file-system.ts';
import { formatPath } from '../archive/format.ts';
import { checkFormat } from '../archive/recovery.ts';
import { listSegments } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import {
  type Boundary,
  commitIn,
  damagedSegment,
  NO_TORN_BATCH,
  segmentState,
} from './copy-log.ts';

export interface ClosedSegment {
  readonly segment: number;
  readonly end: ChainState;
  /** Digest of its purged records; empty if there are none. */
  readonly purged: string;
}

export interface CopyScan {
  readonly archiveId: string;
  /** Text of FORMAT without its line ending. */
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
  if (last === undefined) throw damagedSegment(dir, 1, 'segment-missing');
  const closed: ClosedSegment[] = [];
  let open: CopyScan['open'];
  let archiveId: string | undefined;
  let end: ChainState | undefined;
  let time = 0;
  for (const [at, segment] of [...listing.keys()].entries()) {
    if (segment !== at + 1) throw damagedSegment(dir, at + 1, 'segment-missing');
    const state = segmentState(
      files,
      dir,
      segment,
      listing,
      segment === last ? seen : NO_TORN_BATCH,
    );
    if (state === undefined || state.damaged)
      throw damagedSegment(dir, segment, 'bytes', listing.get(segment));
    archiveId ??= state.archiveId;
    end = state.end;
    time = state.endedAt ?? time;
    const { boundaries } = state;
    if (segment === last && state.generation === 1) open = { segment, boundaries };
    else closed.push({ segment, end, purged: digestOf(state.purged) });
  }
  if (archiveId === undefined || end === undefined) throw damagedSegment(dir, 1, 'segment-missing');
  const format = readSmallFile(files, formatPath(dir)).toString('latin1').trimEnd();
  const commit = { number: end.number, hash: end.hash, time };
  return { archiveId, format, commit, closed, open };
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
