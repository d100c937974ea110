import type { ThreadEnded } from '../core/error-tables.ts';
import type { MessageId } from '../core/types.ts';
import type { HeaderFacts } from './headers.ts';
import {
  type AttachmentLine,
  recipientToken,
  senderToken,
  threadLinks,
  withDomains,
} from './identity.ts';
import {
  indexText,
  listTokens,
  mimeTokens,
  packText,
  TOKEN_ATTACHMENT,
  TOKEN_INLINE,
} from './normalise.ts';
import type { RemoteImages } from './safe-page.ts';

/** Increment this whenever the same source would yield different text, so that indexes extract messages again. */
export const EXTRACTOR_VERSION = 6;

/** Reports whether HTML says more than its text: it has a layout, or images. */
export function isRichHtml(html: string): boolean {
  return /<(?:img|table)\b/i.test(html);
}

/** Why a message is unparsed: it exceeded a limit, is `malformed`, or is `damaged` in the archive. */
export const UNPARSED_REASONS = [
  ...(['timeout', 'memory', 'depth', 'parts', 'header', 'malformed', 'damaged'] as const),
] as const;
export type UnparsedReason = (typeof UNPARSED_REASONS)[number];

export function threadEndReason({
  facts: { reason },
}: ThreadEnded): 'timeout' | 'memory' | 'malformed' {
  return reason === 'timeout' || reason === 'memory' ? reason : 'malformed';
}

export interface ExtractedAttachment extends AttachmentLine {
  readonly contentId: string | null;
}

export interface HashedAttachment extends ExtractedAttachment {
  /** See `AttachmentForm` in extract-message.ts. Null if the attachment has no text. */
  readonly form: string | null;
  /** SHA-256 of the bytes; null if the message was truncated before the end of the attachment. */
  readonly hash: string | null;
}

/**
 * Searchable content of a message: Unicode without NULs, cut off at the limits below (`truncated`). A message that
 * cannot be parsed has status `unparsed`, a reason, and any headers that can be read.
 */
export interface Extraction extends HeaderFacts {
  readonly status: 'parsed' | 'unparsed';
  readonly reason: UnparsedReason | null;
  /** Plain text, words found only in other forms (see body-text.ts), and the text of attached messages. */
  readonly body: string;
  readonly attachments: readonly HashedAttachment[];
  readonly truncated: boolean;
}

export function emptyExtraction(reason: UnparsedReason): Extraction {
  return {
    ...{ status: 'unparsed', reason, subject: '', from: '', to: '', cc: '', bcc: '' },
    ...{ deliveredTo: '', body: '', attachments: [], listId: null, messageId: null },
    ...{ references: [], truncated: false, senders: [], recipients: [] },
  };
}

export type IndexEntry = Readonly<ReturnType<typeof indexEntry>>;

export function indexEntry(extraction: Extraction) {
  const { status, reason, attachments, body } = extraction;
  return {
    unparsed: status === 'unparsed' ? (reason ?? 'malformed') : null,
    /** Null if the header is missing, so that the listed value applies. `from` works the same way. */
    subject: extraction.subject === '' ? null : indexText(extraction.subject),
    from: extraction.from === '' ? null : indexText(extraction.from),
    to: indexText(extraction.to),
    cc: indexText(extraction.cc),
    bcc: indexText(extraction.bcc),
    deliveredTo: indexText(extraction.deliveredTo),
    body: indexText(body),
    attachmentNames: indexText(attachments.map(({ filename }) => filename ?? '').join('\n')),
    tokens: metaTokens(extraction),
    packedText: packText(body),
    attachments,
    links: threadLinks(extraction),
    senders: extraction.senders,
    recipients: extraction.recipients,
  };
}

function metaTokens({ attachments, listId, senders, recipients }: Extraction): string[] {
  const files = attachments.filter((attachment) => !attachment.inline);
  const tokens = [
    ...(files.length > 0 ? [TOKEN_ATTACHMENT] : []),
    ...(files.length < attachments.length ? [TOKEN_INLINE] : []),
    ...attachments.flatMap((attachment) => mimeTokens(attachment.contentType)),
    ...withDomains(senders).map(senderToken),
    ...recipients.map(recipientToken),
  ];
  // Searches for a List-Id use phrases, so its words must stay adjacent and in order.
  return [...new Set(tokens), ...(listId === null ? [] : listTokens(listId))];
}

export interface ExtractionJob {
  readonly id: MessageId;
  /** Raw source up to the limit. Its buffer is transferred. */
  readonly source: Uint8Array;
  readonly cut: boolean;
}

export interface Extractor {
  /** Returns a message's index entry, which is `unparsed` if parsing fails. Rejects only after `close`. */
  extract(job: ExtractionJob): Promise<IndexEntry>;
  /** Recommended number of jobs in flight. */
  readonly width: number;
  /** Frees the memory of idle threads. The next job may then start more slowly. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/**
 * Limits for one message, chosen so that two workers together stay below 300 MB. Mail is untrusted, so every dimension
 * is limited. Content over a limit is truncated and marked as such.
 */
export const DEFAULT_LIMITS = {
  /** CPU time in milliseconds. A worker that exceeds it is terminated. */
  messageMs: 20_000,
  /** Source bytes to read. The rest is cut (`truncated`). */
  sourceBytes: 16 * MiB,
  /** Bytes per header block. A message with a longer one is `unparsed` (`header`). */
  headerBytes: MiB,
  depth: 100,
  parts: 2000,
  /** Levels of nested messages to read for text. Deeper messages are only listed. */
  embedded: 8,
  /** Bytes to read per attached message. */
  embeddedBytes: 4 * MiB,
  /** Total UTF-16 units of body text to keep. */
  bodyChars: 2 * MiB,
  textPartBytes: 4 * MiB,
  /** UTF-16 units of HTML to convert to text per part. */
  htmlChars: 2 * MiB,
  /** HTML tags to lay out, including those in attached messages. HTML beyond the limit is flattened. */
  htmlTags: 240_000,
  /** UTF-16 units per header field value. */
  fieldChars: 64 * 1024,
  /** Total UTF-16 units per kind of address field. */
  addressChars: 256 * 1024,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** A worker is replaced once its heap and buffers exceed this many bytes. */
  wornBytes: 64 * MiB,
};
export type MimeLimits = Readonly<typeof DEFAULT_LIMITS>;

/** Passes a source on, and adds up to `max` of its first bytes to `head`. */
export async function* keepHead(
  source: AsyncIterable<Uint8Array>,
  head: Uint8Array[],
  max: number,
): AsyncGenerator<Uint8Array> {
  let room = max;
  for await (const piece of source) {
    if (room > 0) {
      head.push(piece.slice(0, room));
      room -= piece.byteLength;
    }
    yield piece;
  }
}

/** A message to display. Its text is untrusted: print it through core/terminal-safe.ts. */
export interface MessageReading
  extends Pick<HeaderFacts, 'subject' | 'from' | 'to' | 'cc' | 'bcc' | 'messageId'> {
  readonly reason: UnparsedReason | null;
  /** All header fields in order. Names keep their spelling; values are decoded and unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** How the message, or one of its parts, is encrypted. */
  readonly encrypted: 'S/MIME' | 'OpenPGP' | null;
  readonly text: string;
  /** HTML bodies, decoded and joined but not sanitised; null if there are none. */
  readonly html: string | null;
  /** Remote images in the HTML; null if there is no HTML or they were not requested. */
  readonly remote: RemoteImages | null;
  /** True if a body is plain text. Otherwise `text` is derived from the HTML. */
  readonly hasPlain: boolean;
  readonly attachments: readonly ExtractedAttachment[];
  readonly truncated: boolean;
}
