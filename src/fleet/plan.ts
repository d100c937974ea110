const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Deflated bytes in PostgreSQL, and how long they wait there at most. */
const TAIL_BYTES = 1024 * 1024;
const TAIL_AGE_MS = 24 * HOUR_MS;
/** What a new holder folds into an older catalog is at most about this. */
const SNAPSHOT_MESSAGES = 2_000;
const SNAPSHOT_AGE_MS = 90 * DAY_MS;

/** What is known of an archive when it is decided what is due. Ages are milliseconds. */
export interface ArchiveFacts {
  /** Deflated bytes of the tail. */
  readonly tailBytes: number;
  /** How long the oldest of them are there, and their segment; null if there are none. */
  readonly tailAgeMs: number | null;
  readonly tailSegment: number | null;
  readonly snapshot: {
    /** Null if there is none. */
    readonly ageMs: number | null;
    /** Commits and messages since; all, if there is none. */
    readonly commits: number;
    readonly messages: number;
  };
}

export type Due = { readonly do: 'chunk'; readonly segment: number } | { readonly do: 'snapshot' };

/**
 * Returns what is due for an archive. Closing segments and sealing them is due at the end of a pass, here as anywhere; what
 * is sealed takes its part of the tail with it.
 */
export function dueFor({
  tailBytes,
  tailAgeMs,
  tailSegment,
  snapshot,
}: ArchiveFacts): readonly Due[] {
  const due: Due[] = [];
  const isOld = tailAgeMs !== null && tailAgeMs >= TAIL_AGE_MS;
  if (tailSegment !== null && (tailBytes >= TAIL_BYTES || isOld)) {
    due.push({ do: 'chunk', segment: tailSegment });
  }
  const { ageMs, commits, messages } = snapshot;
  const isOldSnapshot = commits > 0 && ageMs !== null && ageMs >= SNAPSHOT_AGE_MS;
  if (messages >= SNAPSHOT_MESSAGES || isOldSnapshot) due.push({ do: 'snapshot' });
  return due;
}
