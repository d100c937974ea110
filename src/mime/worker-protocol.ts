import type { PieceMessage } from '../threads/source-pieces.ts';
import type { ExtractedAttachment, UnparsedReason } from './extraction.ts';
import type { MimeLimits } from './limits.ts';
import type { MessageReading } from './message-reading.ts';
import type { RemotePictures } from './remote-pictures.ts';
import type { SentEntry } from './sent-entries.ts';

/** What a worker thread is started with. */
export interface ExtractWorkerData {
  readonly mode: 'extract';
  readonly limits: MimeLimits;
  /** One Int32: the sequence number of the message the worker is on, 0 while it is on none. */
  readonly current: SharedArrayBuffer;
}

/** One message of a group; its source lies in the group's buffer, or apart where it is large. */
export interface GroupedJob {
  readonly seq: number;
  readonly offset: number;
  readonly length: number;
  readonly cut: boolean;
  /** Set when the message ended a worker: only its headers are wanted, as unparsed for this reason. */
  readonly unparsed: UnparsedReason | null;
}

/** Messages travel in groups: posting each alone would cost as much as parsing a short one. */
export interface JobGroup {
  readonly buffer: ArrayBuffer | SharedArrayBuffer;
  readonly jobs: readonly GroupedJob[];
}

export interface GroupResults {
  readonly results: readonly { readonly seq: number; readonly entry: SentEntry }[];
  /** The bytes of all entries, see `sendEntries`. */
  readonly bytes: ArrayBuffer;
  /** True when the worker holds so much memory that it should be replaced. */
  readonly worn: boolean;
}

/** A worker that reads messages, one at a time, each of which it asks for piece by piece. */
export interface ReadWorkerData {
  readonly mode: 'read';
  readonly limits: MimeLimits;
  /** Null for a thread that is started ahead: it is posted what is wanted before each message. Others read one. */
  readonly want: ReadWant | null;
}

/**
 * Where the links of a page lead: null, to where the sender had them lead; else to this address with the sender's behind
 * it, percent-encoded.
 */
export type LinkTarget = string | null;

export type ReadWant =
  | { readonly kind: 'message'; readonly countsRemote: boolean }
  /** Headers only, as of a message that is unreadable for this reason. */
  | { readonly kind: 'headers'; readonly reason: UnparsedReason }
  /** Every attachment, in one go. */
  | { readonly kind: 'attachments' }
  /** The HTML as a page that is safe to open. */
  | { readonly kind: 'page'; readonly links: LinkTarget };

/** To the reader: what is wanted, a piece of the source, its end, or leave to send the next chunk. */
export type ToReader =
  | PieceMessage
  | { readonly kind: 'more' }
  | { readonly kind: 'want'; readonly want: ReadWant };

export type FromReader =
  /** Asks for the next piece of the source. */
  | { readonly kind: 'next' }
  | { readonly kind: 'message'; readonly message: MessageReading }
  | { readonly kind: 'attachment'; readonly attachment: ExtractedAttachment }
  /** Bytes of an attachment, in order; those of two may take turns. The next ones come after `more`. */
  | { readonly kind: 'chunk'; readonly number: number; readonly bytes: Uint8Array }
  /** All bytes of an attachment were sent. */
  | { readonly kind: 'complete'; readonly number: number }
  /** Null where the message has no HTML. */
  | {
      readonly kind: 'page';
      readonly page: string | null;
      readonly remote: RemotePictures;
      readonly reason: UnparsedReason | null;
    }
  /** Nothing more comes. */
  | { readonly kind: 'finished'; readonly breach: UnparsedReason | null };
