/** Mailboxes that one request of the platform surface's listing shows. */
export const MAILBOXES_A_REQUEST = 100;

const DAY_MS = 86_400_000;
/** A listing is not asked for more often, however many mailboxes it shows. */
const LEAST_MS = 1_800_000;
/** A usage that is a day old is asked for by itself: the listing comes before that. */
const LONGEST_MS = 20 * 3_600_000;

/**
 * True when a listing costs at most half of the requests that it replaces: one a mailbox.
 *
 * @param pages requests of the listing
 * @param mailboxes whose usage would be asked for otherwise
 */
export function listingPaysOff(pages: number, mailboxes: number): boolean {
  return 2 * pages <= mailboxes;
}

/**
 * Milliseconds between two listings, so that a day of them costs at most half of what a request a day and mailbox
 * costs (a little more than half for 2 mailboxes); null when no interval is worth it.
 */
export function listingEveryMs(pages: number, mailboxes: number): number | null {
  if (!listingPaysOff(pages, mailboxes)) return null;
  return Math.min(LONGEST_MS, Math.max(LEAST_MS, (2 * DAY_MS * pages) / mailboxes));
}
