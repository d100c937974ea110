/** Mailboxes per request of the platform surface's listing. */
export const MAILBOXES_A_REQUEST = 100;

const DAY_MS = 86_400_000;
/** A listing is not requested more often, however many mailboxes it shows. */
const LEAST_MS = 1_800_000;
/** A usage that is a day old is requested by itself: the listing comes before that. */
const LONGEST_MS = 20 * 3_600_000;

/**
 * Returns whether a listing costs at most half of the requests that it replaces: one per mailbox.
 *
 * @param pages requests of the listing
 * @param mailboxes whose usage would be requested one by one
 */
export function listingPaysOff(pages: number, mailboxes: number): boolean {
  return 2 * pages <= mailboxes;
}

/**
 * Returns the milliseconds between two listings, so that a day of them costs at most half of one request per day and
 * mailbox (a little more than half for 2 mailboxes); null when no interval is worth it.
 */
export function listingEveryMs(pages: number, mailboxes: number): number | null {
  if (!listingPaysOff(pages, mailboxes)) return null;
  return Math.min(LONGEST_MS, Math.max(LEAST_MS, (2 * DAY_MS * pages) / mailboxes));
}

/** What a mailbox holds by a listing; null where the listing does not say. */
export interface HeldAmounts {
  readonly bytes: number | null;
  readonly messages: number | null;
}

/**
 * Returns whether a mailbox holds something else than at the listing before, and not what the last pass saw there: then
 * a pass may find something new. Neither answer proves anything.
 *
 * @param before undefined for a first listing
 * @param seen messages that the origin listed at the last pass over each folder
 */
export function hasMoved(
  before: HeldAmounts | undefined,
  now: HeldAmounts,
  seen: () => number,
): boolean {
  if (before === undefined) return false;
  if (before.bytes === now.bytes && before.messages === now.messages) return false;
  return now.messages === null || now.messages !== seen();
}
