import type { SearchHit } from '../catalog/search.ts';
import type { Range } from '../catalog/snippets.ts';
import type { FoundInSource } from './message-view.ts';

/** A message as search lists it, with its conversation, oldest first. It stands in it itself. */
export interface Conversation {
  readonly all: readonly SearchHit[];
  /** Which of them the message is. */
  readonly at: number;
  /** The ids of those in whose text or attachments the words of the query stand, besides itself. */
  readonly found: readonly string[];
}

/** Bytes of a source on one page. */
export const WINDOW_BYTES = 256 * 1024;

/** A stretch of a source, and how much there is in all. Bytes; the text is what UTF-8 makes of them. */
export interface SourceText {
  readonly from: number;
  readonly length: number;
  readonly size: number;
  readonly text: string;
  /** What was looked for, where it stands in the whole source, and in `text`; null where nothing was looked for. */
  readonly find:
    | (FoundInSource & { readonly text: string; readonly matches: readonly Range[] })
    | null;
  /** Where the match that is shown begins in `text`. */
  readonly current: number | null;
}

/** A piece of a message's text: as it is written, quoted, or its signature. */
export interface TextPiece {
  readonly kind: 'text' | 'quote' | 'signature';
  readonly lines: readonly string[];
  /** What the query matched in the lines, joined by line feeds. */
  readonly matches: readonly Range[];
}
