/** Increased whenever the same bytes would give different text, so that the catalog knows what to read again. */
export const ATTACHMENT_VERSION = 2;

/** UTF-16 units of text kept per attachment, and per message for all its attachments. */
export const CHARS_PER_ATTACHMENT = 256 * 1024;
export const CHARS_PER_MESSAGE = 512 * 1024;

/**
 * Why an attachment has no text: too slow, too much memory, too large, unpacks beyond its limit (a zip bomb), needs a
 * password, is not in its claimed format, has an unsupported format, or is damaged in the archive.
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

/** Result of reading one attachment. The text contains no NUL and may be empty, as for a scan. */
export type AttachmentOutcome =
  | { readonly status: 'done'; readonly text: string; readonly truncated: boolean }
  | { readonly status: 'failed'; readonly reason: AttachmentFailure };

export interface AttachmentJob {
  /** See `AttachmentForm` in extract-message.ts. */
  readonly form: string;
  /** The attachment's bytes, or the raw source of its message. */
  readonly source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** The attachment's number in the message `source`; null if `source` is the attachment itself. */
  readonly number: number | null;
  /** Milliseconds of work, if below the general limit. */
  readonly limitMs?: number;
  /** Called with the milliseconds of work, before the outcome is known. */
  readonly worked?: (ms: number) => void;
}

export interface AttachmentExtractor {
  /** Reads one attachment at a time. Rejects only with errors of `source`, `mime-worker-failed`, `extractor-closed`. */
  extract(job: AttachmentJob): Promise<AttachmentOutcome>;
  /** Ends the worker after its pending jobs; the next attachment starts it again. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/** Limits for one attachment. Exceeding one fails only that attachment. */
export const ATTACHMENT_LIMITS = {
  /** Processor time for one attachment, milliseconds. Then its worker is ended. */
  attachmentMs: 20_000,
  /** Decoded bytes of an attachment; larger ones are skipped. */
  bytes: 24 * MiB,
  /** Total unpacked bytes of all zip entries that are read. */
  inflatedBytes: 64 * MiB,
  /** Entries of a zip. */
  entries: 10_000,
  /** Pages of a PDF that are read. */
  pages: 2000,
  /** Total unpacked bytes of the streams of one PDF page. */
  pageBytes: 16 * MiB,
  /** Form XObjects drawn by one PDF page: they can draw each other. */
  pageForms: 20_000,
  /** Calls of `String.fromCharCode` for one PDF page: a few bytes can map millions of codes to characters. */
  pageCodes: 500_000,
  /** UTF-16 units of text kept. */
  chars: CHARS_PER_ATTACHMENT,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** Bytes of heap and buffers above which the worker is replaced after its attachment. */
  wornBytes: 64 * MiB,
  /** Growth of the process while reading, in bytes: buffers, as of a PDF's streams, are outside V8's heap limits. */
  growthBytes: 160 * MiB,
};
export type AttachmentLimits = Readonly<typeof ATTACHMENT_LIMITS>;
