import { z } from 'zod';
import type { Lane } from '../core/concurrency.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { OriginMailbox } from '../sync/ports.ts';
import type { ProgressListener, SyncFailure, SyncResult } from '../sync/result.ts';
import type { SyncPlan } from '../sync/run-sync.ts';
import type { Narrowing } from '../sync/selection.ts';

export interface DaemonClock {
  /** Milliseconds since the epoch. It may jump: somebody sets it, or the machine slept. */
  now(): number;
  /** Milliseconds of a clock that never goes back; while the machine sleeps it may stand. */
  monotonic(): number;
  /** Calls back once after at least `ms`; the returned function takes it back. */
  after(ms: number, call: () => void): () => void;
}

/** A mailbox that an account of the configuration wants. */
export interface WatchedMailbox extends OriginMailbox {
  readonly account: string;
  readonly host: string;
}

/** What a pass over a mailbox is to do beyond looking for what is new. Empty `folders` means all that are wanted. */
export interface Aim {
  readonly full: boolean;
  readonly acceptEndings: boolean;
  readonly folders: readonly string[];
}

export interface PassRequest {
  readonly mailbox: WatchedMailbox;
  readonly aim: Aim;
  /** When work on this aim began, milliseconds since the epoch: an interrupted sweep continues from there. */
  readonly begunAt: number;
  /** A person waits for it: nothing is spared that costs a request. */
  readonly byHand: boolean;
  /** The lane of the next request; undefined leaves it to the request itself. */
  readonly lane: () => Lane | undefined;
  readonly signal: AbortSignal;
  readonly progress: ProgressListener;
}

export interface Survey {
  readonly mailboxes: readonly WatchedMailbox[];
  /** What to report about mailboxes that the account has lost; an account that failed completely is a failure without a mailbox. */
  readonly result: SyncResult;
}

/** Does the work that the daemon decides on. */
export interface PassRunner {
  /** The mailboxes of an account; asked of the origin when `fresh`, or when the last answer is an hour old. */
  survey(account: string, fresh: boolean, signal: AbortSignal): Promise<Survey>;
  /**
   * One pass over one mailbox. Failures of the origin are in the result.
   *
   * @throws `sync.interrupted` when the signal was aborted; families `disk`, `damage`, `in-use` when the archive cannot go on
   */
  pass(request: PassRequest): Promise<SyncResult>;
  plan(
    accounts: readonly string[],
    narrowing: Narrowing,
    full: boolean,
    signal: AbortSignal,
  ): Promise<SyncPlan>;
  /** True when the archive has (or had) this message of the mailbox's INBOX. */
  has(mailbox: WatchedMailbox, uid: number): boolean;
  /**
   * Does what can wait, for a few seconds: reads attachments, seals what is worth it. Resolves with whether there is
   * more to do.
   */
  tidy(signal: AbortSignal): Promise<boolean>;
  /** Makes the archive writable again after a failure of the disk. */
  recover(): void;
  /** Changes when the account's token may have changed; null where that cannot be seen. */
  tokenMark(account: string): string | null;
}

/** What a run was started for. */
export type RunKind = 'hint' | 'hand' | 'sync' | 'backlog' | 'sweep';

/** A run is one or more passes that were started for one reason. */
export interface RunInfo {
  readonly id: number;
  readonly kind: RunKind;
  /** Null for a run over several accounts. */
  readonly account: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

/** Why an account's passes wait. */
export interface AccountTrouble {
  /** `refused`: the token. `away`: the host cannot be reached, or does not want to be. */
  readonly state: 'refused' | 'away';
  readonly code: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly retryAt: number;
}

/** Why a pass or a survey failed for an account as a whole. */
export type AccountFailure = Pick<SyncFailure, 'family' | 'code' | 'facts'>;

/** What the daemon reports to its listeners: health, metrics, notifications, the log. A listener never throws or waits. */
export type DaemonEvent =
  | { readonly event: 'run-started'; readonly run: RunInfo; readonly mailboxes: number }
  | { readonly event: 'run-finished'; readonly run: RunInfo; readonly result: SyncResult }
  | {
      readonly event: 'pass-finished';
      readonly kind: RunKind;
      readonly mailbox: WatchedMailbox;
      /** It was asked for some folders only, and says nothing about the others. */
      readonly isNarrow: boolean;
      readonly result: SyncResult;
    }
  /** A long pass, every half minute: what it has stored, of how many messages. */
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

/** That something is new in a mailbox, from whoever may know: a webhook, a person, another program. */
export interface Hint {
  readonly resourceId?: string | undefined;
  readonly address?: string | undefined;
  /** Where several accounts reach the mailbox. */
  readonly account?: string | undefined;
  /** The message in INBOX that it is about. */
  readonly uid?: number | undefined;
}

/** What runs by the clock, hints and probes want of a pass: new mail, and what shows without asking for everything. */
export const LOOK: Aim = { full: false, acceptEndings: false, folders: [] };
/** Every message and flag. */
export const SWEEP: Aim = { full: true, acceptEndings: false, folders: [] };

const time = z.string().nullable();
const count = z.number();

/** What only a running daemon knows, as reported over its control socket. Times in ISO 8601 UTC. */
export const daemonStatus = z.object({
  pid: count,
  startedAt: z.string(),
  now: z.string(),
  schedule: z.array(z.object({ name: z.string(), lastAt: time, nextAt: time })),
  /** Passes that wait, by what they are for. */
  waiting: z.object({ hint: count, hand: count, sync: count, backlog: count, sweep: count }),
  underway: z.array(
    z.object({ account: z.string(), mailbox: z.string(), kind: z.string(), forMs: count }),
  ),
  accounts: z.array(
    z.object({
      name: z.string(),
      /** `refused`: the token. `away`: the host cannot be reached, or wants to be left alone. */
      state: z.enum(['ok', 'refused', 'away']),
      code: z.string().nullable(),
      since: time,
      retryAt: time,
      mailboxes: count,
      /** The last run over all mailboxes: when it began, and how long it took. */
      roundAt: time,
      roundMs: count.nullable(),
      /** From the start of the last run but one to the start of the last: the freshness that is reached. */
      everyMs: count.nullable(),
    }),
  ),
});
export type DaemonStatus = z.output<typeof daemonStatus>;
