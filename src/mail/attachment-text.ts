/** Increase this whenever the same bytes would yield different text, so that the catalog reads attachments again. */
export const ATTACHMENT_VERSION = 2;

/** UTF-16 units of text kept per attachment, and per message for all its attachments. */
export const CHARS_PER_ATTACHMENT = 256 * 1024;
export const CHARS_PER_MESSAGE = 512 * 1024;

/**
 * `bomb` unpacks beyond its limit, `malformed` is not what it claims to be, and `damaged` is damaged in the archive.
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

/** The text contains no NUL, and is empty for a scanned document. */
export type AttachmentOutcome =
  | { readonly status: 'done'; readonly text: string; readonly truncated: boolean }
  | { readonly status: 'failed'; readonly reason: AttachmentFailure };

export interface AttachmentJob {
  readonly form: string;
  readonly source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** The attachment's number if `source` is a whole message, or null if `source` is the attachment itself. */
  readonly number: number | null;
  /** Time limit in milliseconds, if lower than `ATTACHMENT_LIMITS`. */
  readonly limitMs?: number;
  /** Called with the time worked in milliseconds, just before `extract` settles. */
  readonly worked?: (ms: number) => void;
}

export interface AttachmentExtractor {
  /**
   * Reads one attachment at a time. Rejects only with `mime-worker-failed`, `extractor-closed` and `source`'s errors.
   */
  extract(job: AttachmentJob): Promise<AttachmentOutcome>;
  /** Stops the worker once its pending jobs are done. The next attachment starts a new one. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/** Limits for one attachment. One that exceeds a limit yields no text, or only part of it. */
export const ATTACHMENT_LIMITS = {
  /** Processor time in milliseconds. A worker that exceeds it is terminated. */
  attachmentMs: 20_000,
  /** Decoded bytes. Larger attachments are skipped. */
  bytes: 24 * MiB,
  /** Total unpacked bytes of the zip entries that are read. */
  inflatedBytes: 64 * MiB,
  entries: 10_000,
  pages: 2000,
  /** Total unpacked bytes of the streams of one PDF page. */
  pageBytes: 16 * MiB,
  /** Form XObjects drawn by one PDF page. They can draw each other. */
  pageForms: 20_000,
  /** Calls of `String.fromCharCode` for one PDF page. A few bytes can map millions of codes to characters. */
  pageCodes: 500_000,
  /** UTF-16 units of text kept. */
  chars: CHARS_PER_ATTACHMENT,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** The worker is replaced once its heap and buffers exceed this many bytes. */
  wornBytes: 64 * MiB,
  /** Bytes by which the process may grow while reading. V8's heap limits do not cover PDF buffers. */
  growthBytes: 160 * MiB,
};
export type AttachmentLimits = Readonly<typeof ATTACHMENT_LIMITS>;
