/**
 * Our own words (see the glossary in docs/design.md). The names of the wire stop at `service/`;
 * everything inside speaks these.
 */

/** Lower-case hexadecimal SHA-256 of a message's raw bytes: the identity of a message, and its public id. */
export type MessageId = string;

/** Lower-case hexadecimal SHA-256 of a blob's bytes, before any compression. */
export type BlobHash = string;

/** A mailbox of the origin: host name (without port) and resource id. Together they name it for ever; its address may change. */
export interface MailboxKey {
  readonly host: string;
  readonly mailbox: string;
}

/** A folder of a mailbox by its full path, as the origin spells it. */
export interface FolderKey extends MailboxKey {
  readonly folder: string;
}

/** Where a message is: uids mean something only within a generation of a folder. */
export interface Place extends FolderKey {
  readonly generation: number;
  readonly uid: number;
}

/** Flags as the origin spells them, sorted by code unit and without repetition. */
export type FlagSet = readonly string[];

/** Sorts and deduplicates flags; spelling is kept, since unknown flags and keywords are kept as they are. */
export function flagSet(flags: Iterable<string>): FlagSet {
  return [...new Set(flags)].sort();
}

/** The flags whose messages are counted and asked for at the origin, as it spells them. */
export type CountedFlag = '\\Seen' | '\\Flagged' | '\\Answered';

/** True when two sorted flag sets hold the same flags. */
export function sameFlags(a: FlagSet, b: FlagSet): boolean {
  return a.length === b.length && a.every((flag, i) => flag === b[i]);
}

export interface Address {
  readonly name: string;
  readonly address: string;
}

/** The attachment line of a listing record. */
export interface ListedAttachment {
  readonly id: string;
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly inline: boolean;
  readonly filename: string | null;
  readonly contentId: string | null;
}

/**
 * A message as a listing of the origin shows it, decoded leniently: a field that is missing is null or empty.
 * `extra` holds every field of the record that has no name here, so that nothing the service sent is lost.
 */
export interface Listing {
  readonly uid: number;
  /** ISO 8601 as sent by the origin: the received date. */
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

/** A folder as `listFolders` shows it. */
export interface ListedFolder {
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly messageCount: number;
  readonly unreadCount: number;
}

/**
 * Returns the text with at most 30 combining marks in a row, what follows them in the row cut. Use it before
 * `normalize`, which sorts the marks of a row in quadratic time; 30 is what Unicode's Stream-Safe Text Format allows
 * (UAX #15), and no language writes ten.
 */
export function cutMarks(text: string): string {
  // The halfwidth sound marks are letters that become marks in NFKC. Made here, and not for a command that meets none.
  return text.replace(/([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu, '$1');
}
