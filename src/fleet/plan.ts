import { SEGMENT_BYTES } from '../archive/format/layout.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Deflated bytes in PostgreSQL, and how long they wait there at most. */
const TAIL_BYTES = 1024 * 1024;
const TAIL_AGE_MS = 24 * HOUR_MS;
/** What a new holder folds into an older catalog is at most about this. */
const SNAPSHOT_MESSAGES = 2_000;
const SNAPSHOT_AGE_MS = 90 * DAY_MS;

/** What is known of an archive when it is decided what is due. Times are milliseconds since 1970. */
export interface ArchiveFacts {
  /** Deflated bytes of the tail. */
  readonly tailBytes: number;
  /** When the oldest of them came; undefined if there are none. */
  readonly tailSince: number | undefined;
  /** The segment that is written to, and where its last batch ends. */
  readonly hot: { readonly segment: number; readonly offset: number };
  /** Segments before it that are not sealed yet, in order. */
  readonly closed: readonly number[];
  readonly snapshot: {
    /** When it was taken; when the archive began, if there is none. */
    readonly at: number;
    /** Commits and messages since. */
    readonly commits: number;
    readonly messages: number;
  };
}

export type Due =
  | { readonly do: 'seal'; readonly segment: number }
  /** Close the segment that is written to: sealing it is due next. */
  | { readonly do: 'roll' }
  | { readonly do: 'chunk'; readonly segment: number }
  | { readonly do: 'snapshot' };

/**
 * Returns what is due for an archive, in the order in which it is to be done. What is sealed takes its part of the tail with
 * it, so a chunk is made only where nothing is sealed.
 */
export function dueFor(
  { tailBytes, tailSince, hot, closed, snapshot }: ArchiveFacts,
  now: number,
): readonly Due[] {
  const due: Due[] = closed.map((segment) => ({ do: 'seal', segment }));
  const isFull = hot.offset >= SEGMENT_BYTES;
  const isOld = tailSince !== undefined && now - tailSince >= TAIL_AGE_MS;
  if (isFull) due.push({ do: 'roll' });
  else if (closed.length === 0 && (tailBytes >= TAIL_BYTES || isOld)) {
    due.push({ do: 'chunk', segment: hot.segment });
  }
  const isBehind =
    snapshot.messages >= SNAPSHOT_MESSAGES ||
    (snapshot.commits > 0 && now - snapshot.at >= SNAPSHOT_AGE_MS);
  if (isBehind) due.push({ do: 'snapshot' });
  return due;
}
