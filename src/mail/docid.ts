/** Docids per second of received time. The 65th message of a second gets the next second's first free one. */
export const DOCIDS_PER_SECOND = 64;

/** 1971-01-01; an earlier received date comes from a host with an unset clock. */
const EARLIEST_SECOND = 31_536_000;
/** Undated messages have docids below this one, so that they sort last and match no date. */
const FIRST_DATED = EARLIEST_SECOND * DOCIDS_PER_SECOND;
/** Seconds; a received date more than a day in the future is odd. */
const FUTURE_SLACK_SECONDS = 86_400;

/**
 * Returns the first docid of a message: its received second × 64. Rowid order is thus date order, and a newest-first
 * search can stop after its first page. A date before 1971 or more than a day ahead is replaced by the time of first
 * sight. Undated messages precede all others.
 *
 * @param received the listing's date, ISO 8601; any other text counts as undated
 * @param firstSeenMs time of first sight, milliseconds since the epoch
 */
export function docidBase(received: string, firstSeenMs: number): number {
  const firstSeen = Math.floor(firstSeenMs / 1000);
  const parsed = Math.floor(Date.parse(received) / 1000);
  if (Number.isNaN(parsed)) return DOCIDS_PER_SECOND;
  const odd = parsed < EARLIEST_SECOND || parsed > firstSeen + FUTURE_SLACK_SECONDS;
  return (odd ? firstSeen : parsed) * DOCIDS_PER_SECOND;
}

/** Returns the first docid in the same second. */
export function docidBaseOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * DOCIDS_PER_SECOND;
}

export function isDated(docid: number): boolean {
  return docid >= FIRST_DATED;
}

/** Returns when a docid's message was received, to the second; milliseconds since the epoch. */
export function receivedAt(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/**
 * Returns the lowest docid of messages received at or after a time, to the second.
 *
 * @param time milliseconds since the epoch; null for every dated message
 */
export function docidAt(time: number | null): number {
  // A docid represents a second, and every moment within it.
  return Math.max(FIRST_DATED, Math.ceil((time ?? 0) / 1000) * DOCIDS_PER_SECOND);
}
