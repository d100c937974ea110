import type { HeapLimits } from '../threads/worker-thread.ts';

/**
 * How much one message may cost. Mail is written by strangers, so every dimension in which it can grow has a
 * ceiling; what lies beyond is cut and said to be cut, never an error of the program.
 */
export interface MimeLimits extends HeapLimits {
  /** Processor time for one message, milliseconds. Its worker is ended after that much work. */
  readonly messageMs: number;
  /** Bytes of a source that are looked at for extraction; the rest is cut (`truncated`). */
  readonly sourceBytes: number;
  /** Bytes of one header block; a longer one leaves the message `unparsed` (`header`). */
  readonly headerBytes: number;
  /** Levels of parts inside parts, attached messages included. */
  readonly depth: number;
  /** Parts of a message in all, those of attached messages included. */
  readonly parts: number;
  /** Messages inside messages whose text is looked at; deeper ones are listed only. */
  readonly embedded: number;
  /** Bytes of one attached message that are looked at. */
  readonly embeddedBytes: number;
  /** UTF-16 units of body text kept in all. */
  readonly bodyChars: number;
  /** Decoded bytes of one text part that are looked at. */
  readonly textPartBytes: number;
  /** UTF-16 units of one HTML part that are turned into text. */
  readonly htmlChars: number;
  /** Tags of all HTML of a message, attached messages included, that are read as a tree; HTML beyond is flattened. */
  readonly htmlTags: number;
  /** UTF-16 units of one header field's value. */
  readonly fieldChars: number;
  /** UTF-16 units of all address fields of one kind together. */
  readonly addressChars: number;
  /** Bytes of heap and buffers above which a worker is replaced when its messages are done. */
  readonly wornBytes: number;
}

const MiB = 1024 * 1024;

/** What indexing a message may cost: chosen so that two workers together stay below 300 MB of memory. */
export const DEFAULT_LIMITS: MimeLimits = {
  messageMs: 20_000,
  sourceBytes: 16 * MiB,
  headerBytes: MiB,
  depth: 100,
  parts: 2000,
  embedded: 8,
  embeddedBytes: 4 * MiB,
  bodyChars: 2 * MiB,
  textPartBytes: 4 * MiB,
  htmlChars: 2 * MiB,
  htmlTags: 240_000,
  fieldChars: 64 * 1024,
  addressChars: 256 * 1024,
  oldGenerationMb: 96,
  youngGenerationMb: 16,
  wornBytes: 64 * MiB,
};
