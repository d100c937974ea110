/** Docids per second of received time. The 65th message of a second takes the next second's first free one. */
export const DOCIDS_PER_SECOND = 64;

/** Received dates before this are odd: e-mail with a host's clock unset. 1971-01-01. */
const EARLIEST_SECOND = 31_536_000;
/** A received date this far ahead of the clock is odd: one day, in seconds. */
const FUTURE_SLACK_SECONDS = 86_400;

/**
 * The first docid a message may take: its received second × 64, so that rowid order is date order and a
 * newest-first search can stop after its first page. A date that does not parse, lies before 1971 or more
 * than a day ahead is clamped to the time the message was first seen.
 *
 * @param received the listing's date, ISO 8601
 * @param firstSeenMs time of first sight, milliseconds since the epoch
 */
export function docidBase(received: string, firstSeenMs: number): number {
  const firstSeen = Math.floor(firstSeenMs / 1000);
  const parsed = Math.floor(Date.parse(received) / 1000);
  const odd =
    Number.isNaN(parsed) || parsed < EARLIEST_SECOND || parsed > firstSeen + FUTURE_SLACK_SECONDS;
  return (odd ? firstSeen : parsed) * DOCIDS_PER_SECOND;
}

/** Returns the first docid of the second that a docid lies in. */
export function docidBaseOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * DOCIDS_PER_SECOND;
}

/** Returns when the message of a docid was received, by the second; milliseconds since the epoch. */
export function receivedAt(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/** Returns the lowest docid of messages received at a time (milliseconds since the epoch) or later, by the second. */
export function docidAt(time: number): number {
  // A docid stands for a second: a moment within one belongs to it.
  return Math.max(0, Math.ceil(time / 1000) * DOCIDS_PER_SECOND);
}
