import type { HeapLimits } from '../threads/worker-thread.ts';
import { CHARS_PER_ATTACHMENT } from './attachment-text.ts';

/** How much one attachment may cost. Whatever is inside, one that meets a limit has failed and nothing else has. */
export interface AttachmentLimits extends HeapLimits {
  /** Processor time for one attachment, milliseconds. Its worker is ended after that much work. */
  readonly attachmentMs: number;
  /** Decoded bytes of an attachment; a larger one is not looked at. */
  readonly bytes: number;
  /** Bytes that the entries of a zip may unpack to, all that are read together. */
  readonly inflatedBytes: number;
  /** Entries of a zip. */
  readonly entries: number;
  /** Pages of a PDF that are looked at. */
  readonly pages: number;
  /** Bytes that the streams of one page of a PDF may unpack to, all together. */
  readonly pageBytes: number;
  /** Form XObjects that one page of a PDF may draw: they draw each other. */
  readonly pageForms: number;
  /** Calls of `String.fromCharCode` for one page of a PDF: a few bytes map millions of codes to characters. */
  readonly pageCodes: number;
  /** UTF-16 units of text kept. */
  readonly chars: number;
  /** Bytes of heap and buffers above which the worker is replaced when its attachment is done. */
  readonly wornBytes: number;
  /**
   * Bytes by which the whole process may grow while an attachment is read. Buffers lie outside of V8's heap, so
   * its limits do not hold a PDF whose streams unpack without end.
   */
  readonly growthBytes: number;
}

const MiB = 1024 * 1024;

export const ATTACHMENT_LIMITS: AttachmentLimits = {
  attachmentMs: 20_000,
  bytes: 24 * MiB,
  inflatedBytes: 64 * MiB,
  entries: 10_000,
  pages: 2000,
  pageBytes: 16 * MiB,
  pageForms: 20_000,
  pageCodes: 500_000,
  chars: CHARS_PER_ATTACHMENT,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  wornBytes: 64 * MiB,
  growthBytes: 160 * MiB,
};
