/** Raised whenever the same bytes would give other text, so that the catalog knows what to read again. */
export const ATTACHMENT_VERSION = 2;

/** UTF-16 units of text kept of one attachment, and of all attachments of one message together. */
export const CHARS_PER_ATTACHMENT = 256 * 1024;
export const CHARS_PER_MESSAGE = 512 * 1024;

/**
 * Why an attachment has no text: it took too long or too much memory, is larger than is looked at, unpacks to more
 * than it may (a zip bomb), wants a password, is not what it says, is of a kind that is not read, or its bytes in
 * the archive are damaged.
 */
export type AttachmentFailure =
  | 'timeout'
  | 'memory'
  | 'too-large'
  | 'bomb'
  | 'encrypted'
  | 'malformed'
  | 'unsupported'
  | 'damaged';

/** What came of reading one attachment. The text is NUL-free and may be empty, as a scan's is. */
export type AttachmentOutcome =
  | { readonly status: 'done'; readonly text: string; readonly truncated: boolean }
  | { readonly status: 'failed'; readonly reason: AttachmentFailure };

export interface AttachmentJob {
  /** See `AttachmentForm` in extract-message.ts. */
  readonly form: string;
  /** The attachment's bytes, or the raw source of its message. */
  readonly source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** The attachment's number in the message that `source` is; null when `source` is the attachment itself. */
  readonly number: number | null;
  /** Milliseconds of work that it may take, if less than every attachment may. */
  readonly limitMs?: number;
  /** Called with the milliseconds of work that it took, before the outcome is known. */
  readonly worked?: (ms: number) => void;
}

export interface AttachmentExtractor {
  /**
   * One at a time; others wait for their turn. Never rejects because of an attachment: what cannot be read comes
   * back as failed. Rejects with what `source` throws, `mime-worker-failed` and `extractor-closed`.
   */
  extract(job: AttachmentJob): Promise<AttachmentOutcome>;
  /** Ends the worker when what it was given is done; the next attachment starts it again. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/** How much one attachment may cost. Whatever is inside, one that meets a limit has failed and nothing else has. */
export const ATTACHMENT_LIMITS = {
  /** Processor time for one attachment, milliseconds. Its worker is ended after that much work. */
  attachmentMs: 20_000,
  /** Decoded bytes of an attachment; a larger one is not looked at. */
  bytes: 24 * MiB,
  /** Bytes that the entries of a zip may unpack to, all that are read together. */
  inflatedBytes: 64 * MiB,
  /** Entries of a zip. */
  entries: 10_000,
  /** Pages of a PDF that are looked at. */
  pages: 2000,
  /** Bytes that the streams of one page of a PDF may unpack to, all together. */
  pageBytes: 16 * MiB,
  /** Form XObjects that one page of a PDF may draw: they draw each other. */
  pageForms: 20_000,
  /** Calls of `String.fromCharCode` for one page of a PDF: a few bytes map millions of codes to characters. */
  pageCodes: 500_000,
  /** UTF-16 units of text kept. */
  chars: CHARS_PER_ATTACHMENT,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** Bytes of heap and buffers above which the worker is replaced when its attachment is done. */
  wornBytes: 64 * MiB,
  /**
   * Bytes by which the whole process may grow while an attachment is read. Buffers lie outside of V8's heap, so
   * its limits do not hold a PDF whose streams unpack without end.
   */
  growthBytes: 160 * MiB,
};
export type AttachmentLimits = Readonly<typeof ATTACHMENT_LIMITS>;
