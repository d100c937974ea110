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

/** Raised whenever the same source would give other text, so that indexes know what to extract again. */
export const EXTRACTOR_VERSION = 6;

/**
 * Why a message is unparsed: it took too long or too much memory, it nests too deep, has too many parts or too
 * long a header, the parser gave up on it, or its bytes in the archive are damaged.
 */
export type UnparsedReason =
  | 'timeout'
  | 'memory'
  | 'depth'
  | 'parts'
  | 'header'
  | 'malformed'
  | 'damaged';

/** Returns why a message or attachment is unreadable on which a thread ended: whatever is no limit is the parser's. */
export function reasonOfEnd({
  facts: { reason },
}: ThreadEnded): 'timeout' | 'memory' | 'malformed' {
  return reason === 'timeout' || reason === 'memory' ? reason : 'malformed';
}

export interface ExtractedAttachment extends AttachmentLine {
  readonly contentId: string | null;
}

/** An attachment with what tells its content from others. */
export interface HashedAttachment extends ExtractedAttachment {
  /**
   * See `AttachmentForm` in extract-message.ts; null where it has no text of its own. That text is read apart from the
   * message: see attachment-text.ts.
   */
  readonly form: string | null;
  /** SHA-256 of its bytes; null where the message was cut before their end. */
  readonly hash: string | null;
}

/**
 * What can be searched in a message. All text is decoded Unicode, NUL-free, and cut at the room's ceilings
 * (`truncated` says so). A message that will not parse has status `unparsed`, a reason, and the headers as
 * far as they go.
 */
export interface Extraction extends HeaderFacts {
  readonly status: 'parsed' | 'unparsed';
  readonly reason: UnparsedReason | null;
  /**
   * Bodies: plain text, and what other forms of it say beyond that (see body-text.ts). Attached messages follow with
   * their subject, people and text.
   */
  readonly body: string;
  readonly attachments: readonly HashedAttachment[];
  readonly truncated: boolean;
}

/** What is known of a message of which not even the headers could be read. */
export function emptyExtraction(reason: UnparsedReason): Extraction {
  return {
    ...{ status: 'unparsed', reason, subject: '', from: '', to: '', cc: '', bcc: '' },
    ...{ deliveredTo: '', body: '', attachments: [], listId: null, messageId: null },
    ...{ references: [], truncated: false, senders: [], recipients: [] },
  };
}

export type IndexEntry = Readonly<ReturnType<typeof indexEntry>>;

/**
 * Returns what the index keeps of an extraction, ready to be written: the work that needs no database is done, so that it
 * can be done in a worker. Text is in the form of `indexText`. The same extraction always gives the same entry.
 */
export function indexEntry(extraction: Extraction) {
  const { status, reason, attachments, body } = extraction;
  return {
    /** Why the message is unparsed; null when it was parsed. */
    unparsed: status === 'unparsed' ? (reason ?? 'malformed') : null,
    /** Null where the message has none: what the origin listed stands in for it. The same holds for `from`. */
    subject: extraction.subject === '' ? null : indexText(extraction.subject),
    from: extraction.from === '' ? null : indexText(extraction.from),
    to: indexText(extraction.to),
    cc: indexText(extraction.cc),
    bcc: indexText(extraction.bcc),
    deliveredTo: indexText(extraction.deliveredTo),
    /** The longest of the texts: from a worker it comes as UTF-8, which costs no string. */
    body: indexText(body) as string | Buffer,
    /** Names of the attachments, a line each. */
    attachmentNames: indexText(attachments.map(({ filename }) => filename ?? '').join('\n')),
    /** Words of the `meta` column but those of mailboxes, in order. */
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
  // The words of the List-Id stay in order and together: they are sought as a phrase.
  return [...new Set(tokens), ...(listId === null ? [] : listTokens(listId))];
}

/** Fields that are sent as bytes, in the order in which the bytes lie. */
const AS_BYTES = ['body', 'packedText'] as const;
type AsBytes = (typeof AS_BYTES)[number];

/** An entry on its way to another thread: numbers of bytes stand for what lies in the group's buffer, null for null. */
export type SentEntry = Omit<IndexEntry, AsBytes> & {
  readonly [field in AsBytes]: number | null;
};

interface Numbered<Entry> {
  readonly seq: number;
  readonly entry: Entry;
}

/**
 * Puts the long fields of a group's entries into one buffer, to be given away. Strings and many small buffers would be
 * copied on both sides, and stay in the receiver's heap until they are written.
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

/** Returns the entries that `sendEntries` sent; their bytes are views of the buffer. */
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
  /** The raw source, or its first bytes where it is larger than the room's ceiling. The buffer is given away (transferred). */
  readonly source: Uint8Array;
  readonly cut: boolean;
}

export interface Extractor {
  /**
   * Returns what the index keeps of a message. Never rejects because of the message: what will not parse comes back
   * as `unparsed`. Rejects only when closed.
   */
  extract(job: ExtractionJob): Promise<IndexEntry>;
  /** How many jobs can usefully be in flight. */
  readonly width: number;
  /** Gives back the memory of what is idle; the next job may take longer to start. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/**
 * How much one message may cost: chosen so that two workers together stay below 300 MB of memory. Mail is written by
 * strangers, so every dimension in which it can grow has a ceiling; what lies beyond is cut and said to be cut, never an
 * error of the program.
 */
export const DEFAULT_LIMITS = {
  /** Processor time for one message, milliseconds. Its worker is ended after that much work. */
  messageMs: 20_000,
  /** Bytes of a source that are looked at for extraction; the rest is cut (`truncated`). */
  sourceBytes: 16 * MiB,
  /** Bytes of one header block; a longer one leaves the message `unparsed` (`header`). */
  headerBytes: MiB,
  /** Levels of parts inside parts, attached messages included. */
  depth: 100,
  /** Parts of a message in all, those of attached messages included. */
  parts: 2000,
  /** Messages inside messages whose text is looked at; deeper ones are listed only. */
  embedded: 8,
  /** Bytes of one attached message that are looked at. */
  embeddedBytes: 4 * MiB,
  /** UTF-16 units of body text kept in all. */
  bodyChars: 2 * MiB,
  /** Decoded bytes of one text part that are looked at. */
  textPartBytes: 4 * MiB,
  /** UTF-16 units of one HTML part that are turned into text. */
  htmlChars: 2 * MiB,
  /** Tags of all HTML of a message, attached messages included, that are read as a tree; HTML beyond is flattened. */
  htmlTags: 240_000,
  /** UTF-16 units of one header field's value. */
  fieldChars: 64 * 1024,
  /** UTF-16 units of all address fields of one kind together. */
  addressChars: 256 * 1024,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** Bytes of heap and buffers above which a worker is replaced when its messages are done. */
  wornBytes: 64 * MiB,
};
export type MimeLimits = Readonly<typeof DEFAULT_LIMITS>;

/** A message for people to read. All of it is a stranger's text: print it through core/terminal-safe.ts. */
export interface MessageReading
  extends Pick<HeaderFacts, 'subject' | 'from' | 'to' | 'cc' | 'bcc' | 'messageId'> {
  /** Why the message was not read to its end; null when it was. */
  readonly reason: UnparsedReason | null;
  /** All header fields in their order, names as spelled, values decoded and unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** How the text, or a part of the message, is encrypted: nothing here can read it. Null where nothing is. */
  readonly encrypted: 'S/MIME' | 'OpenPGP' | null;
  /** All bodies as text, links in brackets. */
  readonly text: string;
  /** The HTML bodies as sent, decoded and joined; not sanitised. Null where there is none. */
  readonly html: string | null;
  /** Pictures of other servers in it; null where nobody asked, or there is no HTML. */
  readonly remote: RemotePictures | null;
  /** Whether a body is plain text: without one, `text` is what the HTML says. */
  readonly hasPlain: boolean;
  readonly attachments: readonly ExtractedAttachment[];
  /** True when texts were longer than the ceilings. */
  readonly truncated: boolean;
}
