/** Docids per second of received time. The 65th message in a second gets the first free docid of a later second. */
export const DOCIDS_PER_SECOND = 64;

/** 1971-01-01. Earlier received dates come from hosts whose clocks were not set. */
const EARLIEST_SECOND = 31_536_000;
/** Lowest docid of a dated message. Undated messages have lower docids, so that they sort last and match no date. */
const FIRST_DATED = EARLIEST_SECOND * DOCIDS_PER_SECOND;
const FUTURE_SLACK_SECONDS = 86_400;

/**
 * Returns the lowest docid a message can get: its received second × 64. Rowids are therefore in date order, and a
 * search for the newest messages can stop after one page. A date before 1971, or more than a day after `firstSeenMs`,
 * is replaced by `firstSeenMs`. Undated messages precede all others.
 *
 * @param received the listing's date, ISO 8601; other text is treated as undated
 * @param firstSeenMs when the message was first seen, in milliseconds since the epoch
 */
export function docidBase(received: string, firstSeenMs: number): number {
  const firstSeen = Math.floor(firstSeenMs / 1000);
  const second = Math.floor(Date.parse(received) / 1000);
  if (Number.isNaN(second)) return DOCIDS_PER_SECOND;
  const isWrong = second < EARLIEST_SECOND || second > firstSeen + FUTURE_SLACK_SECONDS;
  return (isWrong ? firstSeen : second) * DOCIDS_PER_SECOND;
}

export function docidBaseOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * DOCIDS_PER_SECOND;
}

export function hasDate(docid: number): boolean {
  return docid >= FIRST_DATED;
}

/** Returns a message's received time, to the second, in milliseconds since the epoch. */
export function receivedAt(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/**
 * Returns the lowest docid of messages received at or after a time.
 *
 * @param time milliseconds since the epoch; null includes every dated message
 */
export function docidAt(time: number | null): number {
  // A docid covers a whole second, so round a time within it up to the next second.
  return Math.max(FIRST_DATED, Math.ceil((time ?? 0) / 1000) * DOCIDS_PER_SECOND);
}
