import type { Thrown } from '../errors/mailkeep-error.ts';
import type { ListedAttachment, MessageId } from '../mail/words.ts';
import type { Criteria } from '../mailbox-surface/criteria.ts';
import type { RenderedText } from '../mailbox-surface/message/rendering.ts';

/** Work that reads raw sources, and is done on a thread. */
export type ContentJob = {
  readonly dataDir: string;
  /** Whether segments may be missing in the folder: a job that needs one fails with `segment-elsewhere`. */
  readonly isPartial?: boolean;
} & (
  | {
      readonly kind: 'match';
      readonly criteria: Criteria;
      readonly ids: readonly MessageId[];
      /** Milliseconds that it may take. */
      readonly withinMs: number;
    }
  | { readonly kind: 'text'; readonly id: MessageId }
  | {
      readonly kind: 'attachment';
      readonly id: MessageId;
      readonly listed: readonly ListedAttachment[];
      readonly attachmentId: string;
    }
);

export type ContentResult =
  /** Which of the messages match, by their positions; null where the time was over. */
  | {
      readonly kind: 'match';
      readonly positions: readonly number[] | null;
      /** The messages whose sources are damaged, by their positions: nobody knows whether they match. */
      readonly damaged: readonly number[];
      /** What is wrong with the first of them. */
      readonly why: Thrown | null;
    }
  | { readonly kind: 'text'; readonly rendered: RenderedText }
  /** Null where it cannot be told which part it is. */
  | { readonly kind: 'attachment'; readonly bytes: Uint8Array | null };
