import { hasCode } from '../core/errors.ts';
import type { PieceMessage } from '../core/in-thread.ts';
import { mailError } from './errors.ts';
import {
  type ExtractedAttachment,
  type IndexEntry,
  keepHead,
  type MessageReading,
  type MimeLimits,
  UNPARSED_REASONS,
  type UnparsedReason,
} from './extraction.ts';
import { type ReadingOptions, readInWorker, readingLimits } from './mime-threads.ts';
import type { RemoteImages } from './safe-page.ts';

/**
 * Reads a message of any size for display. `reason` is set if parsing fails. Throws only errors from `source`.
 */
export async function readMessage(
  source: AsyncIterable<Uint8Array>,
  options: ReadingOptions = {},
): Promise<MessageReading> {
  /** For the headers, in case the message crashes its worker. */
  const head: Uint8Array[] = [];
  try {
    return await readAnswer(keepHead(source, head, readingLimits(options).headerBytes), {
      kind: 'message',
      countsRemote: options.countsRemote ?? false,
    });
  } catch (error) {
    if (!hasCode(error, 'mail-unreadable')) throw error;
    const { reason } = error.facts;
    return await headersOnly(UNPARSED_REASONS.find((known) => known === reason) ?? 'malformed');
  }

  async function readAnswer(from: AsyncIterable<Uint8Array>, want: ReadTask) {
    for await (const answer of readInWorker(from, want, options)) {
      if (answer.kind === 'message') return answer.message;
    }
    throw mailError('mail-unreadable', { reason: 'malformed' });
  }

  async function headersOnly(reason: UnparsedReason): Promise<MessageReading> {
    try {
      return await readAnswer(toStream(head), { kind: 'headers', reason });
    } catch (error) {
      if (hasCode(error, 'mail-unreadable')) return emptyReading(reason);
      throw error;
    }
  }
}

/**
 * A step in reading all attachments. Each attachment is announced before its first bytes and completed after its last.
 * The bytes of different attachments can alternate.
 */
type AttachmentPiece =
  | { readonly attachment: Omit<ExtractedAttachment, 'size'> }
  | { readonly number: number; readonly bytes: Uint8Array }
  | { readonly number: number; readonly isComplete: true };

/**
 * Yields all attachments of a message. Throws errors from `source`, and `mail-unreadable` if the message cannot be
 * parsed to its end. Attachments completed before that are intact.
 */
export async function* openAttachments(
  source: AsyncIterable<Uint8Array>,
  options: ReadingOptions = {},
): AsyncGenerator<AttachmentPiece, void, undefined> {
  for await (const answer of readInWorker(source, { kind: 'attachments' }, options)) {
    if (answer.kind === 'attachment') {
      const { size: _, ...attachment } = answer.attachment;
      yield { attachment };
    } else if (answer.kind === 'chunk') yield { number: answer.number, bytes: answer.bytes };
    else if (answer.kind === 'complete') yield { number: answer.number, isComplete: true };
    else if (answer.kind === 'finished') {
      if (answer.breach !== null) throw mailError('mail-unreadable', { reason: answer.breach });
      return;
    }
  }
}

/**
 * Returns a message's HTML as a page (see safe-page.ts), or null if it has none. Throws `mail-unreadable` and errors
 * from `source`.
 */
export async function readPage(
  source: AsyncIterable<Uint8Array>,
  options: ReadingOptions = {},
): Promise<string | null> {
  return (await readFramedPage(source, null, options))?.page ?? null;
}

/** Like `readPage`, but also returns the page's remote images, and sends links to `links`. */
export async function readFramedPage(
  source: AsyncIterable<Uint8Array>,
  links: LinkTarget,
  options: ReadingOptions = {},
): Promise<{ readonly page: string; readonly remote: RemoteImages } | null> {
  for await (const answer of readInWorker(source, { kind: 'page', links }, options)) {
    if (answer.kind !== 'page') continue;
    const { page, remote, reason } = answer;
    if (page !== null) return { page, remote };
    if (reason !== null) throw mailError('mail-unreadable', { reason });
    return null;
  }
  throw mailError('mail-unreadable', { reason: 'malformed' });
}

async function* toStream(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

function emptyReading(reason: UnparsedReason): MessageReading {
  return {
    ...{ reason, headers: [], subject: '', from: '', to: '', cc: '', bcc: '', messageId: null },
    ...{ encrypted: null, text: '', html: null, remote: null, hasPlain: false },
    ...{ attachments: [], truncated: false },
  };
}

export interface ExtractWorkerData {
  readonly mode: 'extract';
  readonly limits: MimeLimits;
  /** One Int32: the sequence number of the current message, or 0. */
  readonly current: SharedArrayBuffer;
}

/** A job whose source is in its group's buffer. */
export interface GroupedJob {
  readonly seq: number;
  readonly offset: number;
  readonly length: number;
  readonly cut: boolean;
  /** Set if the message crashed a worker. Only its headers are then read, and it is unparsed for this reason. */
  readonly unparsed: UnparsedReason | null;
}

/** Messages sent together, since posting a short one on its own costs as much as parsing it. */
export interface JobGroup {
  readonly buffer: ArrayBuffer | SharedArrayBuffer;
  readonly jobs: readonly GroupedJob[];
}

export interface GroupResults {
  readonly results: readonly { readonly seq: number; readonly entry: IndexEntry }[];
  /** True if the worker uses so much memory that it should be replaced. */
  readonly worn: boolean;
}

/** Start data for a thread that reads messages, one at a time and piece by piece. */
export interface ReadWorkerData {
  readonly mode: 'read';
  readonly limits: MimeLimits;
}

/** Target of a page's links: the sender's address (null), or this prefix and that address, percent-encoded. */
export type LinkTarget = string | null;

export type ReadTask =
  | { readonly kind: 'message'; readonly countsRemote: boolean | 'rich' }
  /** Reads only the headers of a message that is unreadable for this reason. */
  | { readonly kind: 'headers'; readonly reason: UnparsedReason }
  | { readonly kind: 'attachments' }
  | { readonly kind: 'page'; readonly links: LinkTarget };

export type ToReader =
  | PieceMessage
  | { readonly kind: 'more' }
  | { readonly kind: 'want'; readonly want: ReadTask };

export type FromReader =
  /** Requests the next piece of the source. */
  | { readonly kind: 'next' }
  | { readonly kind: 'message'; readonly message: MessageReading }
  | { readonly kind: 'attachment'; readonly attachment: ExtractedAttachment }
  /** An attachment's bytes, in order. Chunks of two attachments can alternate. The worker waits for `more`. */
  | { readonly kind: 'chunk'; readonly number: number; readonly bytes: Uint8Array }
  | { readonly kind: 'complete'; readonly number: number }
  | {
      readonly kind: 'page';
      readonly page: string | null;
      readonly remote: RemoteImages;
      readonly reason: UnparsedReason | null;
    }
  | { readonly kind: 'finished'; readonly breach: UnparsedReason | null };
