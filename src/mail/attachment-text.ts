/** Increment this whenever the same bytes would yield different text, so that the catalog reads attachments again. */
export const ATTACHMENT_VERSION = 2;

/** UTF-16 units of text to keep per attachment, and in total for a message's attachments. */
export const CHARS_PER_ATTACHMENT = 256 * 1024;
export const CHARS_PER_MESSAGE = 512 * 1024;

/**
 * `bomb` exceeds a limit when unpacked, `malformed` violates its format, and `damaged` is damaged in the archive.
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

/** `text` contains no NULs, and is empty for a scanned document. */
export type AttachmentOutcome =
  | { readonly status: 'done'; readonly text: string; readonly truncated: boolean }
  | { readonly status: 'failed'; readonly reason: AttachmentFailure };

export interface AttachmentJob {
  readonly form: string;
  readonly source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** Number of the attachment in the message `source`, or null if `source` is the attachment itself. */
  readonly number: number | null;
  /** Time limit in milliseconds; ignored unless it is lower than the one in `ATTACHMENT_LIMITS`. */
  readonly limitMs?: number;
  /** Called with the processing time in milliseconds just before `extract` settles. */
  readonly worked?: (ms: number) => void;
}

export interface AttachmentExtractor {
  /**
   * Reads one attachment at a time. Rejects only with `mime-worker-failed`, `extractor-closed` or errors from `source`.
   */
  extract(job: AttachmentJob): Promise<AttachmentOutcome>;
  /** Stops the worker once its pending jobs have finished. The next attachment starts a new one. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

const MiB = 1024 * 1024;

/** Limits for one attachment. Exceeding a limit loses some or all of the text. */
export const ATTACHMENT_LIMITS = {
  /** CPU time in milliseconds. A worker that exceeds it is terminated. */
  attachmentMs: 20_000,
  /** Decoded bytes. Larger attachments are skipped. */
  bytes: 24 * MiB,
  /** Total unpacked size of all zip entries read, in bytes. */
  inflatedBytes: 64 * MiB,
  entries: 10_000,
  pages: 2000,
  /** Total unpacked size of a PDF page's streams, in bytes. */
  pageBytes: 16 * MiB,
  /** Form XObjects drawn by a PDF page. Forms can draw one another. */
  pageForms: 20_000,
  /** `String.fromCharCode` calls per PDF page. A few bytes can map millions of codes to characters. */
  pageCodes: 500_000,
  /** UTF-16 units of text to keep. */
  chars: CHARS_PER_ATTACHMENT,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  /** The worker is replaced once its heap and buffers exceed this many bytes. */
  wornBytes: 64 * MiB,
  /** How much the process may grow during a read, in bytes. V8's heap limits do not cover PDF buffers. */
  growthBytes: 160 * MiB,
};
export type AttachmentLimits = Readonly<typeof ATTACHMENT_LIMITS>;
