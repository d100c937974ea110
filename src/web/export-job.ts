import type { CountRequest } from '../catalog/search.ts';
import type { Thrown } from '../core/errors.ts';
import type { StreamOptions } from '../transfer/run-export.ts';

/** What an export thread is to do. */
export interface ExportJob {
  readonly dataDir: string;
  /** Keys of the mailboxes that may be known; null for all. */
  readonly mailboxes: readonly string[] | null;
  readonly format: StreamOptions['format'];
  /** The query as it was typed, and what it means. */
  readonly text: string;
  readonly request: CountRequest;
}

/** To the thread: the next piece is wanted. */
export type ToExport = 'more';

/** From the thread: once `begun`, then a piece for each that is wanted, then the end; or why there is none. */
export type FromExport =
  | { readonly kind: 'begun'; readonly commit: number }
  | { readonly kind: 'piece'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }
  | { readonly kind: 'failed'; readonly thrown: Thrown };
