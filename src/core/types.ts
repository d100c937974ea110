/** Internal vocabulary (see the glossary in docs/design.md). Names of the wire formats stay within `service/`. */

/** Lower-case hexadecimal SHA-256 of a message's raw bytes: the identity of a message, and its public id. */
export type MessageId = string;

/** Lower-case hexadecimal SHA-256 of a blob's uncompressed bytes. */
export type BlobHash = string;

/**
 * A mailbox at the origin: host name (without port) and resource id. Both are permanent, but its address may change.
 */
export interface MailboxKey {
  readonly host: string;
  readonly mailbox: string;
}

/** `folder` is the full path in the origin's spelling. */
export interface FolderKey extends MailboxKey {
  readonly folder: string;
}

/** The location of a message. UIDs are valid only within one UID epoch of a folder. */
export interface Place extends FolderKey {
  readonly generation: number;
  readonly uid: number;
}

/** Flags in the origin's spelling, sorted by code unit, without duplicates. */
export type FlagSet = readonly string[];

/** Sorts and deduplicates flags. Keeps unknown keywords and every flag's spelling. */
export function flagSet(flags: Iterable<string>): FlagSet {
  return [...new Set(flags)].sort();
}

/** Flags that the origin can count and search for, in its own spelling. */
export type CountedFlag = '\\Seen' | '\\Flagged' | '\\Answered';

/** Compares flags without case, because servers may change the case of a keyword (RFC 9051, section 2.3.2). */
export function sameFlags(a: FlagSet, b: FlagSet): boolean {
  if (a.length !== b.length) return false;
  if (a.every((flag, i) => flag === b[i])) return true;
  const names = new Set(a.map((flag) => flag.toLowerCase()));
  const others = new Set(b.map((flag) => flag.toLowerCase()));
  return names.size === others.size && [...names].every((name) => others.has(name));
}

export interface Address {
  readonly name: string;
  readonly address: string;
}

export interface ListedAttachment {
  readonly id: string;
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly inline: boolean;
  readonly filename: string | null;
  readonly contentId: string | null;
}

/** A message in a listing, decoded leniently: missing fields are null or empty, and unknown ones are in `extra`. */
export interface Listing {
  readonly uid: number;
  /** Received date in ISO 8601, as sent by the origin. */
  readonly date: string;
  readonly flags: FlagSet;
  /** Size of the raw source in bytes, as counted by the origin. */
  readonly size: number;
  readonly subject: string | null;
  readonly from: Address | null;
  readonly to: readonly Address[];
  readonly cc: readonly Address[];
  readonly bcc: readonly Address[];
  readonly messageId: string | null;
  readonly inReplyTo: string | null;
  readonly attachments: readonly ListedAttachment[];
  readonly extra: Readonly<Record<string, unknown>>;
}

export interface ListedFolder {
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly messageCount: number;
  readonly unreadCount: number;
}

/**
 * Cuts runs of combining marks to 30, the limit in Unicode's Stream-Safe Text Format (UAX #15); no language uses even
 * ten. Call it before `normalize`, which takes quadratic time to sort a run's marks.
 */
export function cutMarks(text: string): string {
  // Halfwidth sound marks are letters that become marks in NFKC. The regex is created on first use.
  return text.replace(/([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu, '$1');
}

/**
 * The number of places in a folder by their state in the archive. Each place is counted once. The sums add up if stored
 * + assumed + quarantined + forgotten equals the service's total, which excludes held places.
 */
export interface FolderTotals {
  /** Open places whose bytes were fetched and hashed. */
  readonly stored: number;
  /** Open places matched to another place's bytes without a download, and not yet verified. */
  readonly assumed: number;
  /** Places whose source was not accepted. */
  readonly quarantined: number;
  /** Open places that the deletion guard keeps even though the service no longer has them. */
  readonly held: number;
  /** Places where the service still has a message that was forgotten here. */
  readonly forgotten: number;
}

export const NO_PLACES: FolderTotals = {
  stored: 0,
  assumed: 0,
  quarantined: 0,
  held: 0,
  forgotten: 0,
};

/** Returns the number of places that the archive accounts for: the sum of all five counts. */
export function countAccountedFor(sums: FolderTotals): number {
  return expectedAtOrigin(sums) + sums.held;
}

/** Returns the number of places that the service should count: all except held ones, which it no longer has. */
export function expectedAtOrigin({
  stored,
  assumed,
  quarantined,
  forgotten,
}: FolderTotals): number {
  return stored + assumed + quarantined + forgotten;
}

/** Returns the number of open places, whose messages have not been deleted at the service. */
export function countOpenPlaces({ stored, assumed, held }: FolderTotals): number {
  return stored + assumed + held;
}

/** Returns the number of the service's messages that the archive does not account for, at least 0. */
export function countMissing(originTotal: number, sums: FolderTotals): number {
  return Math.max(0, originTotal - countAccountedFor(sums));
}

/** Reports whether everything adds up except for held places, which await the deletion guard's decision. */
export function differsOnlyByHeld(originTotal: number, sums: FolderTotals): boolean {
  return sums.held > 0 && expectedAtOrigin(sums) === originTotal;
}

export function addSums(folders: readonly FolderTotals[]): FolderTotals {
  return folders.reduce<FolderTotals>(
    (total, sums) => ({
      stored: total.stored + sums.stored,
      assumed: total.assumed + sums.assumed,
      quarantined: total.quarantined + sums.quarantined,
      held: total.held + sums.held,
      forgotten: total.forgotten + sums.forgotten,
    }),
    NO_PLACES,
  );
}

/** Reports whether a folder is incomplete only because of held messages, which need a user's decision. */
export function isHeldOnly(
  folder: FolderTotals & { readonly complete: boolean; readonly originTotal: number },
): boolean {
  return !folder.complete && differsOnlyByHeld(folder.originTotal, folder);
}

/** What the service's last listings count, and how much of it sync runs have read. */
export interface ListedTotals {
  /** Counted once per folder. */
  readonly messages: number;
  readonly folders: number;
  /** Folders that no sync run has read to the end since they were listed like this. */
  readonly unfinished: number;
  /** Mailboxes whose folders were never read. Their messages are not counted. */
  readonly unreadMailboxes: number;
}

/** Groups of attachments by type, as on the files page. */
export const FILE_GROUPS = ['pdf', 'pictures', 'documents', 'tables', 'archives', 'other'] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];

/**
 * Returns an account's key in the state.
 *
 * @param account name in the configuration
 */
export function accountKey(account: string, host: string): string {
  return JSON.stringify([account, host]);
}
