import { z } from 'zod';
import type { Clock, Lane } from '../core/concurrency.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { OriginMailbox } from '../sync/ports.ts';
import type { ProgressListener, SyncFailure, SyncResult } from '../sync/result.ts';

export interface DaemonClock extends Clock {
  /** Milliseconds on a monotonic clock, which can stop while the machine is suspended. */
  monotonic(): number;
}

export interface WatchedMailbox extends OriginMailbox {
  readonly account: string;
  readonly host: string;
}

/** What a sync does besides looking for new mail. If `folders` is empty, all selected folders are synced. */
export interface SyncScope {
  readonly full: boolean;
  readonly acceptEndings: boolean;
  readonly folders: readonly string[];
}

export interface SyncRequest {
  readonly mailbox: WatchedMailbox;
  readonly aim: SyncScope;
  /** When work on this aim started, in milliseconds since the epoch. An interrupted full sync resumes from it. */
  readonly begunAt: number;
  /** True if a user is waiting for the sync, which therefore does not try to save requests. */
  readonly byHand: boolean;
  /** Returns the lane of the next request; undefined leaves the choice to the request. */
  readonly lane: () => Lane | undefined;
  readonly signal: AbortSignal;
  readonly progress: ProgressListener;
}

export interface MailboxListing {
  readonly mailboxes: readonly WatchedMailbox[];
  /** Results for mailboxes that the account has lost. If the whole account failed, the failure does not name one. */
  readonly result: SyncResult;
}

export type RunKind = 'hint' | 'hand' | 'sync' | 'backlog' | 'sweep';

/** One or more syncs that were started for the same reason. */
export interface RunInfo {
  readonly id: number;
  readonly kind: RunKind;
  /** Null if the run covers several accounts. */
  readonly account: string | null;
  readonly startedAt: number;
}

export interface AccountProblem {
  /** `refused`: the token was refused. `away`: the host is unreachable or asked to wait. */
  readonly state: 'refused' | 'away';
  readonly code: string;
  readonly since: number;
  readonly retryAt: number;
}

/** Reason why a sync or a listing failed for a whole account. */
export type AccountFailure = Pick<SyncFailure, 'family' | 'code' | 'facts'>;

/** Events for the daemon's listeners: health, metrics, notifications, the log. Listeners never throw or block. */
export type DaemonEvent =
  | { readonly event: 'run-started'; readonly run: RunInfo; readonly mailboxes: number }
  | { readonly event: 'run-finished'; readonly run: RunInfo; readonly result: SyncResult }
  | {
      readonly event: 'pass-finished';
      readonly kind: RunKind;
      readonly mailbox: WatchedMailbox;
      readonly isNarrow: boolean;
      readonly result: SyncResult;
    }
  /** Sent every 30 seconds during a long sync, with the number of messages stored and the total. */
  | {
      readonly event: 'pass-progress';
      readonly mailbox: WatchedMailbox;
      readonly messages: number;
      readonly of: number;
      readonly bytes: number;
    }
  | {
      readonly event: 'pass-preempted';
      readonly kind: RunKind;
      readonly mailbox: WatchedMailbox;
    }
  | {
      readonly event: 'account-stopped';
      readonly account: string;
      readonly problem: AccountProblem;
      readonly failure: AccountFailure;
    }
  | { readonly event: 'surveyed'; readonly account: string; readonly result: SyncResult }
  | { readonly event: 'account-recovered'; readonly account: string; readonly afterMs: number }
  | {
      readonly event: 'hint';
      readonly account: string;
      readonly mailbox: string;
      readonly uids: number;
    }
  | { readonly event: 'hint-unseen'; readonly account: string; readonly mailbox: string }
  | { readonly event: 'hint-unknown' }
  | { readonly event: 'skipped'; readonly kind: RunKind; readonly account: string }
  | { readonly event: 'clock-jumped'; readonly ms: number }
  | { readonly event: 'archive-failed'; readonly error: MailkeepError; readonly retryAt: number };

export type Observer = (event: DaemonEvent) => void;

/** Announces that a mailbox has changed. Sent by a webhook, a user or another program. */
export interface ChangeNotice {
  readonly resourceId?: string | undefined;
  readonly address?: string | undefined;
  readonly account?: string | undefined;
  /** UID of the announced message in INBOX. */
  readonly uid?: number | undefined;
}

/** Aim of scheduled runs, notifications and probes: new mail, and changes visible without a full comparison. */
export const QUICK_SYNC: SyncScope = { full: false, acceptEndings: false, folders: [] };
export const FULL_SYNC: SyncScope = { full: true, acceptEndings: false, folders: [] };

const time = z.string().nullable();
const count = z.number();

/** Status known only to a running daemon, served on its control socket. Times are in ISO 8601 UTC. */
export const daemonStatus = z.object({
  pid: count,
  startedAt: z.string(),
  now: z.string(),
  schedule: z.array(z.object({ name: z.string(), lastAt: time, nextAt: time })),
  waiting: z.object({ hint: count, hand: count, sync: count, backlog: count, sweep: count }),
  underway: z.array(
    z.object({ account: z.string(), mailbox: z.string(), kind: z.string(), forMs: count }),
  ),
  accounts: z.array(
    z.object({
      name: z.string(),
      /** `refused`: the token was refused. `away`: the host is unreachable or asked to wait. */
      state: z.enum(['ok', 'refused', 'away']),
      code: z.string().nullable(),
      since: time,
      retryAt: time,
      mailboxes: count,
      /** Start and duration of the last run over all mailboxes. */
      roundAt: time,
      roundMs: count.nullable(),
      /** Milliseconds between the starts of the last two runs, which is the actual freshness. */
      everyMs: count.nullable(),
    }),
  ),
});
export type DaemonStatus = z.output<typeof daemonStatus>;
