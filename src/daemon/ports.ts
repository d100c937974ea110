import { z } from 'zod';
import type { Lane } from '../core/concurrency.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { OriginMailbox } from '../sync/ports.ts';
import type { ProgressListener, SyncFailure, SyncResult } from '../sync/result.ts';

export interface DaemonClock {
  /** Milliseconds since the epoch. May jump: the clock may be set, or the machine suspended. */
  now(): number;
  /** Milliseconds of a monotonic clock, which may stop while the machine is suspended. */
  monotonic(): number;
  /** Calls `call` once after at least `ms`; the returned function cancels it. */
  after(ms: number, call: () => void): () => void;
}

export interface WatchedMailbox extends OriginMailbox {
  readonly account: string;
  readonly host: string;
}

/** What a sync does besides looking for new mail. Empty `folders` means all selected ones. */
export interface Aim {
  readonly full: boolean;
  readonly acceptEndings: boolean;
  readonly folders: readonly string[];
}

export interface PassRequest {
  readonly mailbox: WatchedMailbox;
  readonly aim: Aim;
  /** Start of work on this aim, milliseconds since the epoch: an interrupted full sync continues from there. */
  readonly begunAt: number;
  /** A user waits for it: do not save requests. */
  readonly byHand: boolean;
  /** Returns the lane of the next request; undefined leaves the choice to the request. */
  readonly lane: () => Lane | undefined;
  readonly signal: AbortSignal;
  readonly progress: ProgressListener;
}

export interface Survey {
  readonly mailboxes: readonly WatchedMailbox[];
  /** Results for mailboxes that the account has lost; a complete failure of the account has no mailbox. */
  readonly result: SyncResult;
}

export type RunKind = 'hint' | 'hand' | 'sync' | 'backlog' | 'sweep';

/** A run: one or more syncs started for one reason. */
export interface RunInfo {
  readonly id: number;
  readonly kind: RunKind;
  /** Null for a run over several accounts. */
  readonly account: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

export interface AccountTrouble {
  /** `refused`: the token was refused. `away`: the host is unreachable or asked to wait. */
  readonly state: 'refused' | 'away';
  readonly code: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly retryAt: number;
}

/** Why a sync or listing failed for a whole account. */
export type AccountFailure = Pick<SyncFailure, 'family' | 'code' | 'facts'>;

/** Events for the daemon's listeners: health, metrics, notifications, the log. A listener never throws or blocks. */
export type DaemonEvent =
  | { readonly event: 'run-started'; readonly run: RunInfo; readonly mailboxes: number }
  | { readonly event: 'run-finished'; readonly run: RunInfo; readonly result: SyncResult }
  | {
      readonly event: 'pass-finished';
      readonly kind: RunKind;
      readonly mailbox: WatchedMailbox;
      /** It covered only some folders. */
      readonly isNarrow: boolean;
      readonly result: SyncResult;
    }
  /** Progress of a long sync, every 30 seconds: stored and total messages. */
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
      readonly trouble: AccountTrouble;
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

/** A notification of a change in a mailbox, from a webhook, a user or another program. */
export interface Hint {
  readonly resourceId?: string | undefined;
  readonly address?: string | undefined;
  /** Needed if several accounts have the mailbox. */
  readonly account?: string | undefined;
  /** The announced message in INBOX. */
  readonly uid?: number | undefined;
}

/** Aim of scheduled runs, notifications and probes: new mail, and changes visible without a full comparison. */
export const LOOK: Aim = { full: false, acceptEndings: false, folders: [] };
/** Compares every message and flag. */
export const SWEEP: Aim = { full: true, acceptEndings: false, folders: [] };

const time = z.string().nullable();
const count = z.number();

/** Data that only a running daemon has, served on its control socket. Times in ISO 8601 UTC. */
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
      /** Time between the starts of the last two runs: the actual freshness. */
      everyMs: count.nullable(),
    }),
  ),
});
export type DaemonStatus = z.output<typeof daemonStatus>;
