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
