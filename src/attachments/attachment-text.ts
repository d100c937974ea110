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
  /** See `AttachmentForm` in mime/attachments.ts. */
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
