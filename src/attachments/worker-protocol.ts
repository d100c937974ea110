import type { PieceMessage } from '../threads/source-pieces.ts';
import type { AttachmentOutcome } from './attachment-text.ts';
import type { AttachmentLimits } from './limits.ts';

export interface AttachmentWorkerData {
  readonly limits: AttachmentLimits;
}

/** To the worker: a job, then pieces of its source as they are asked for, then the source's end. */
export type ToWorker =
  | { readonly kind: 'job'; readonly form: string; readonly number: number | null }
  | PieceMessage;

export type FromWorker =
  /** Asks for the next piece of the source. */
  | { readonly kind: 'next' }
  /** `worn`: the worker should be replaced, for its memory or for what its parser may still do. */
  | { readonly kind: 'outcome'; readonly outcome: AttachmentOutcome; readonly worn: boolean };
