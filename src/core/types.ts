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

/** `folder` is the full path, as the origin spells it. */
export interface FolderKey extends MailboxKey {
  readonly folder: string;
}

/** Where a message is. UIDs are valid only within a UID epoch of a folder. */
export interface Place extends FolderKey {
  readonly generation: number;
  readonly uid: number;
}

/** Flags as the origin spells them, sorted by code unit, without duplicates. */
export type FlagSet = readonly string[];

/** Sorts and deduplicates flags. Keeps their spelling and unknown keywords. */
export function flagSet(flags: Iterable<string>): FlagSet {
  return [...new Set(flags)].sort();
}

/** Flags that the origin counts and searches for, as it spells them. */
export type CountedFlag = '\\Seen' | '\\Flagged' | '\\Answered';

export function sameFlags(a: FlagSet, b: FlagSet): boolean {
  return a.length === b.length && a.every((flag, i) => flag === b[i]);
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

/** A message in a listing, decoded leniently: missing fields are null or empty, unknown ones in `extra`. */
export interface Listing {
  readonly uid: number;
  /** Received date, ISO 8601 as the origin sent it. */
  readonly date: string;
  readonly flags: FlagSet;
  /** Bytes of the raw source, as the origin counts them. */
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
 * Cuts runs of combining marks to 30, the limit of Unicode's Stream-Safe Text Format (UAX #15); no language writes
 * ten. Use it before `normalize`, which sorts the marks of a run in quadratic time.
 */
export function cutMarks(text: string): string {
  // Halfwidth sound marks are letters that become marks in NFKC. The regex is created only on use.
  return text.replace(/([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu, '$1');
}

/**
 * The number of places in a folder by their state in the archive. Each place is counted once. The sums add up if stored
 * + assumed + quarantined + forgotten equals the service's total, which does not include held ones.
 */
export interface FolderSums {
  /** Open places whose bytes were fetched and hashed. */
  readonly stored: number;
  /** Open places matched without download to the bytes of another place, not yet verified. */
  readonly assumed: number;
  /** Places whose source was rejected or refused. */
  readonly quarantined: number;
  /** Open places that the deletion guard keeps although the service lacks them. */
  readonly held: number;
  /** Places where the service still shows a message that was forgotten here. */
  readonly forgotten: number;
}

export const NO_PLACES: FolderSums = {
  stored: 0,
  assumed: 0,
  quarantined: 0,
  held: 0,
  forgotten: 0,
};

/** Returns how many places the archive accounts for: the sum of all five. */
export function countAccountedFor(sums: FolderSums): number {
  return expectedAtOrigin(sums) + sums.held;
}

/** Returns how many places the service should count: all but the held ones, which it no longer has. */
export function expectedAtOrigin({ stored, assumed, quarantined, forgotten }: FolderSums): number {
  return stored + assumed + quarantined + forgotten;
}

/** Returns the number of open places: those with a message that the service has not deleted. */
export function countOpenPlaces({ stored, assumed, held }: FolderSums): number {
  return stored + assumed + held;
}

/** Returns how many of the service's messages the archive does not account for, at least 0. */
export function countMissing(originTotal: number, sums: FolderSums): number {
  return Math.max(0, originTotal - countAccountedFor(sums));
}

/** Returns whether everything adds up except for held places, which await the deletion guard's decision. */
export function differsOnlyByHeld(originTotal: number, sums: FolderSums): boolean {
  return sums.held > 0 && expectedAtOrigin(sums) === originTotal;
}

export function addSums(folders: readonly FolderSums[]): FolderSums {
  return folders.reduce<FolderSums>(
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

/** Returns whether a folder is incomplete only because of held messages: a user decision, not a service fault. */
export function isHeldOnly(
  folder: FolderSums & { readonly complete: boolean; readonly originTotal: number },
): boolean {
  return !folder.complete && differsOnlyByHeld(folder.originTotal, folder);
}

/** Groups of attachments by type, as on the page of files. */
export const FILE_GROUPS = ['pdf', 'pictures', 'documents', 'tables', 'archives', 'other'] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];
