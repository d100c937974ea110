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
import type { RemotePictures } from './safe-page.ts';

/** Increased whenever the same source would give different text, so that indexes know what to extract again. */
export const EXTRACTOR_VERSION = 6;

/** Why a message is unparsed: a limit, a parser failure (`malformed`), or damaged bytes in the archive. */
export type UnparsedReason =
  | 'timeout'
  | 'memory'
  | 'depth'
  | 'parts'
  | 'header'
  | 'malformed'
  | 'damaged';

/** Returns why an item is unreadable after its thread ended: a limit, or else a parser failure. */
export function reasonOfEnd({
  facts: { reason },
}: ThreadEnded): 'timeout' | 'memory' | 'malformed' {
  return reason === 'timeout' || reason === 'memory' ? reason : 'malformed';
}

export interface ExtractedAttachment extends AttachmentLine {
  readonly contentId: string | null;
}

/** An attachment with its content's identity. */
export interface HashedAttachment extends ExtractedAttachment {
  /** See `AttachmentForm` in extract-message.ts; null without text, which is read separately (attachment-text.ts). */
  readonly form: string | null;
  /** SHA-256 of its bytes; null if the message was cut before their end. */
  readonly hash: string | null;
}

/**
 * Searchable content of a message. All text is decoded Unicode without NULs, cut at this module's limits (see
 * `truncated`). An unparsable message has status `unparsed`, a reason, and its readable headers.
 */
export interface Extraction extends HeaderFacts {
  readonly status: 'parsed' | 'unparsed';
  readonly reason: UnparsedReason | null;
  /** Plain text, extra words of its other forms (see body-text.ts), and subject, people and text of attached mail. */
  readonly body: string;
  readonly attachments: readonly HashedAttachment[];
  readonly truncated: boolean;
}

/** Returns the result for a message with unreadable headers. */
export function emptyExtraction(reason: UnparsedReason): Extraction {
  return {
    ...{ status: 'unparsed', reason, subject: '', from: '', to: '', cc: '', bcc: '' },
    ...{ deliveredTo: '', body: '', attachments: [], listId: null, messageId: null },
    ...{ references: [], truncated: false, senders: [], recipients: [] },
  };
}

export type IndexEntry = Readonly<ReturnType<typeof indexEntry>>;

/** Returns the index entry of an extraction, with text as in `indexText`. Needs no database: workers can build it. */
export function indexEntry(extraction: Extraction) {
  const { status, reason, attachments, body } = extraction;
  return {
    /** Why the message is unparsed; null if it was parsed. */
    unparsed: status === 'unparsed' ? (reason ?? 'malformed') : null,
    /** Null if missing: the listed value is used instead. The same applies to `from`. */
    subject: extraction.subject === '' ? null : indexText(extraction.subject),
    from: extraction.from === '' ? null : indexText(extraction.from),
    to: indexText(extraction.to),
    cc: indexText(extraction.cc),
    bcc: indexText(extraction.bcc),
    deliveredTo: indexText(extraction.deliveredTo),
    /** The longest text: a worker sends it as UTF-8, which avoids a string. */
    body: indexText(body) as string | Buffer,
    /** Names of the attachments, one per line. */
    attachmentNames: indexText(attachments.map(({ filename }) => filename ?? '').join('\n')),
    /** Words of the `meta` column except those of mailboxes, in order. */
    tokens: tokensOf(extraction),
    packedText: packText(body),
    attachments,
    links: threadLinks(extraction),
    senders: extraction.senders,
    recipients: extraction.recipients,
  };
}

function tokensOf({ attachments, listId, senders, recipients }: Extraction): string[] {
  const attached = attachments.filter((attachment) => !attachment.inline);
  const tokens = [
    ...(attached.length > 0 ? [TOKEN_ATTACHMENT] : []),
    ...(attached.length < attachments.length ? [TOKEN_INLINE] : []),
    ...attachments.flatMap((attachment) => mimeTokens(attachment.contentType)),
    ...withDomains(senders).map(senderToken),
    ...recipients.map(recipientToken),
  ];
  // The List-Id's words stay adjacent and in order: searches use phrases.
  return [...new Set(tokens), ...(listId === null ? [] : listTokens(listId))];
}

/** Fields sent as bytes, in the order of the bytes. */
const AS_BYTES = ['body', 'packedText'] as const;
type AsBytes = (typeof AS_BYTES)[number];

/** An entry in transit to another thread: numbers are byte lengths within the group's buffer, null stays null. */
export type SentEntry = Omit<IndexEntry, AsBytes> & {
  readonly [field in AsBytes]: number | null;
};

interface Numbered<Entry> {
  readonly seq: number;
  readonly entry: Entry;
}

/**
 * Collects the long fields of a group's entries in one buffer, to be transferred. Strings and many small buffers would
 * be copied on both sides, and stay in the receiver's heap until written.
 */
export function sendEntries(entries: readonly Numbered<IndexEntry>[]): {
  readonly results: readonly Numbered<SentEntry>[];
  readonly bytes: ArrayBuffer;
} {
  const results = entries.map(({ seq, entry }) => ({
    seq,
    entry: {
      ...entry,
      body: Buffer.byteLength(entry.body),
      packedText: entry.packedText?.length ?? null,
    },
  }));
  const total = results.reduce(
    (sum, { entry }) => AS_BYTES.reduce((within, field) => within + (entry[field] ?? 0), sum),
    0,
  );
  const bytes = new ArrayBuffer(total);
  const view = Buffer.from(bytes);
  let at = 0;
  for (const { entry } of entries) {
    for (const field of AS_BYTES) {
      const value = entry[field];
      if (typeof value === 'string') at += view.write(value, at);
      else if (value !== null) at += value.copy(view, at);
    }
  }
  return { results, bytes };
}

/** Returns the entries of `sendEntries`; their bytes are views of the buffer. */
export function receiveEntries(
  results: readonly Numbered<SentEntry>[],
  bytes: ArrayBuffer,
): Numbered<IndexEntry>[] {
  let at = 0;
  const next = (length: number): Buffer => {
    const field = Buffer.from(bytes, at, length);
    at += length;
    return field;
  };
  return results.map(({ seq, entry }) => {
    const { body, packedText } = entry;
    return {
      seq,
      entry: {
        ...entry,
        // In the order of `AS_BYTES`.
        body: next(body ?? 0),
        packedText: packedText === null ? null : next(packedText),
      },
    };
  });
}

export interface ExtractionJob {
  readonly id: MessageId;
  /** The raw source, or its first bytes if it exceeds the limit. The buffer is transferred. */
  readonly source: Uint8Array;
  readonly cut: boolean;
}

export interface Extractor {
  /** Returns the index entry of a message; unparsable ones are `unparsed`. Rejects only after `close`. */
  extract(job: ExtractionJob): Promise<IndexEntry>;
  /** Useful number of jobs in flight. */
  readonly width: number;
  /** Frees the memory of idle threads; the next job may start more slowly. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/**
 * Limits for one message, so that two workers together stay below 300 MB of memory. Mail is untrusted, so every
 * dimension has a limit. Content beyond it is cut and marked as such, never a program error.
 */
export const DEFAULT_LIMITS = {
  /** Processor time for one message, milliseconds. Then its worker is ended. */
  messageMs: 20_000,
  /** Source bytes to extract from; the rest is cut (`truncated`). */
  sourceBytes: 16 * MiB,
  /** Bytes of one header block; a longer one makes the message `unparsed` (`header`). */
  headerBytes: MiB,
  /** Nesting levels of parts, attached messages included. */
  depth: 100,
  /** Total parts of a message, attached messages included. */
  parts: 2000,
  /** Nested messages whose text is read; deeper ones are only listed. */
  embedded: 8,
  /** Bytes to read of one attached message. */
  embeddedBytes: 4 * MiB,
  /** Total UTF-16 units of body text kept. */
  bodyChars: 2 * MiB,
  /** Decoded bytes to read of one text part. */
  textPartBytes: 4 * MiB,
  /** UTF-16 units of one HTML part converted to text. */
  htmlChars: 2 * MiB,
  /** Total HTML tags of a message, attached messages included, parsed as a tree; further HTML is flattened. */
  htmlTags: 240_000,
  /** UTF-16 units of one header field's value. */
  fieldChars: 64 * 1024,
  /** Total UTF-16 units of all address fields of one kind. */
  addressChars: 256 * 1024,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** Bytes of heap and buffers above which a worker is replaced after its messages. */
  wornBytes: 64 * MiB,
};
export type MimeLimits = Readonly<typeof DEFAULT_LIMITS>;

/** A message for people to read. Its text is untrusted: print it through core/terminal-safe.ts. */
export interface MessageReading
  extends Pick<HeaderFacts, 'subject' | 'from' | 'to' | 'cc' | 'bcc' | 'messageId'> {
  /** Why the message was not read to its end, or null. */
  readonly reason: UnparsedReason | null;
  /** All header fields in order, names as spelled, values decoded and unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** How the text, or a part of the message, is encrypted, which we cannot read; null if not. */
  readonly encrypted: 'S/MIME' | 'OpenPGP' | null;
  /** All bodies as text, links in brackets. */
  readonly text: string;
  /** The HTML bodies as sent, decoded and joined; not sanitised. Null without HTML. */
  readonly html: string | null;
  /** Remote images in it; null if not requested, or without HTML. */
  readonly remote: RemotePictures | null;
  /** True if a body is plain text; otherwise `text` comes from the HTML. */
  readonly hasPlain: boolean;
  readonly attachments: readonly ExtractedAttachment[];
  /** True if texts exceeded the limits. */
  readonly truncated: boolean;
}
