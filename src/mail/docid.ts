/** Docids per second of received time. The 65th message of a second takes the next second's first free one. */
export const DOCIDS_PER_SECOND = 64;

/** Received dates before this are odd: e-mail with a host's clock unset. 1971-01-01. */
const EARLIEST_SECOND = 31_536_000;
/** Messages without a date have docids below this one, so that they come last and no date matches them. */
const FIRST_DATED = EARLIEST_SECOND * DOCIDS_PER_SECOND;
/** A received date this far ahead of the clock is odd: one day, in seconds. */
const FUTURE_SLACK_SECONDS = 86_400;

/**
 * The first docid a message may take: its received second × 64, so that rowid order is date order and a
 * newest-first search can stop after its first page. A date that lies before 1971 or more than a day ahead is
 * clamped to the time the message was first seen; a message without a date comes before all others.
 *
 * @param received the listing's date, ISO 8601; any other text means that there is none
 * @param firstSeenMs time of first sight, milliseconds since the epoch
 */
export function docidBase(received: string, firstSeenMs: number): number {
  const firstSeen = Math.floor(firstSeenMs / 1000);
  const parsed = Math.floor(Date.parse(received) / 1000);
  if (Number.isNaN(parsed)) return DOCIDS_PER_SECOND;
  const odd = parsed < EARLIEST_SECOND || parsed > firstSeen + FUTURE_SLACK_SECONDS;
  return (odd ? firstSeen : parsed) * DOCIDS_PER_SECOND;
}

/** Returns the first docid of the second that a docid lies in. */
export function docidBaseOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * DOCIDS_PER_SECOND;
}

/** True for the docid of a message with a date. */
export function isDated(docid: number): boolean {
  return docid >= FIRST_DATED;
}

/** Returns when the message of a docid was received, by the second; milliseconds since the epoch. */
export function receivedAt(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/**
 * Returns the lowest docid of messages received at a time or later, by the second.
 *
 * @param time milliseconds since the epoch; null for any time, so for every message with a date
 */
export function docidAt(time: number | null): number {
  // A docid stands for a second: a moment within one belongs to it.
  return Math.max(FIRST_DATED, Math.ceil((time ?? 0) / 1000) * DOCIDS_PER_SECOND);
}
