import type { Address, FlagSet, MessageId } from './words.ts';

/** One place of a message, with the fields of the contract's `list` lines. */
export interface PlaceLine {
  /** Null while quarantined. */
  readonly id: MessageId | null;
  /** The mailbox's address. */
  readonly mailbox: string;
  /** The full path; as of a time, the path it had then. */
  readonly folder: string;
  readonly uid: number;
  readonly flags: FlagSet;
  /** Bytes of the raw source; of a quarantined message, what the service lists. */
  readonly size: number;
  /** Received date of the listing, ISO 8601 in UTC; null if the service gave none that parses. */
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: Address | null;
  readonly messageId: string | null;
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
}

/** A place of a message that a search found. */
export type HitPlace = Pick<
  PlaceLine,
  'mailbox' | 'folder' | 'uid' | 'flags' | 'date' | 'firstSeen' | 'endedAt'
>;

/** An attachment as search results list it: as `mailkeep attachments` numbers and names it. */
export interface AttachmentLine {
  /** Position among the message's attachments, from 1, in the order of the source. */
  readonly number: number;
  readonly filename: string | null;
  readonly contentType: string;
  /** Decoded bytes. */
  readonly size: number;
  readonly inline: boolean;
}

/** A line of `search`: the message with its first current place, else its last, and all its places. */
export interface SearchLine extends PlaceLine {
  readonly id: MessageId;
  readonly places: readonly HitPlace[];
  /** A piece of the text around what matched, else its beginning. On one line, and not made safe for terminals. */
  readonly snippet: string;
  /** All attachments, inline ones too; null for a message that is not indexed yet. */
  readonly attachments: readonly AttachmentLine[] | null;
  /** The attachments in whose text something sought stands, with a piece of it. */
  readonly matchedAttachments: readonly {
    readonly number: number;
    readonly filename: string | null;
    readonly snippet: string;
  }[];
}
