import type { ReadyReply } from '../mailbox-surface/reply.ts';
import type { ApiToken } from '../state/values.ts';
import type { QuotaRecord } from '../wire/mailbox-records.ts';
import type { Operation } from '../wire/operation.ts';
import type { ContentThreads } from './content-threads.ts';
import type { MirrorView, Moment, OpenArchive } from './mirror-view.ts';
import type { MirroredMailbox } from './mirrored-mailboxes.ts';

/** A request to the mirror that was routed and authorized, with its body read. */
export interface MirrorCall {
  readonly operation: Operation;
  readonly token: ApiToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** The mailboxes that the token reaches. */
  readonly mailboxes: readonly MirroredMailbox[];
  readonly moment: Moment;
  readonly archive: OpenArchive;
  readonly dataDir: string;
  readonly view: MirrorView;
  /** For searches, and for what renders or takes apart one message. */
  readonly threads: Readonly<Record<'searching' | 'rendering', ContentThreads>>;
  /** Names the archive in place of an order. */
  readonly orderId: string;
  /** Returns the quota of a mailbox as the origin last told it. */
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  /** Runs what one token may do once at a time. */
  readonly alone: <T>(act: () => Promise<T>) => Promise<T>;
  /** Returns milliseconds of a clock that never jumps. */
  readonly clock: () => number;
  /** Returns whether the client has gone away. */
  readonly isGone: () => boolean;
}

/** An answer; one that is not ready comes in pieces, and is proven only when all of them have come. */
export type MirrorReply =
  | ReadyReply
  | {
      readonly kind: 'stream';
      readonly type: string;
      readonly length: number;
      readonly pieces: AsyncIterable<Buffer>;
    };
