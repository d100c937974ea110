import type { BrakePolicy } from '../plan/brake.ts';
import type { Canary } from './canary.ts';
import type { Committer } from './committer.ts';
import { brokeWhileAnswering, concernsOnly } from './failure-scope.ts';
import type { HostRules, Trouble } from './host-rules.ts';
import type { Ledger } from './ledger.ts';
import type { Memory, Mirror, Origin } from './ports.ts';
import type { FetchQueue } from './walk/fetch-queue.ts';

/** What every step of one account's pass works with. */
export interface PassContext {
  readonly account: string;
  readonly origin: Origin;
  readonly host: HostWatch;
  readonly mirror: Mirror;
  readonly committer: Committer;
  readonly memory: Memory;
  /** Counts, failures and progress. */
  readonly ledger: Ledger;
  /** Source fetches; its concurrency is the account's. */
  readonly queue: FetchQueue;
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Stops the account's pass, which ends with the first error given. */
  readonly stop: (error: unknown) => void;
  /** Number of the commit the archive had reached when the pass began; 0 for an empty archive. */
  readonly startedAtCommit: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly policy: PassPolicy;
  readonly settings: PassSettings;
}

/**
 * Runs an act on one mailbox or folder. A failure that concerns nothing else is recorded, so that the rest of the
 * pass continues; any other failure ends the pass. Returns whether the act succeeded.
 */
export async function guard(
  ctx: PassContext,
  at: { readonly mailbox: string; readonly folder?: string },
  act: () => Promise<void>,
): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    if (brokeWhileAnswering(error)) ctx.host.trouble.failed(error);
    ctx.ledger.fail(error, at);
    return false;
  }
}

/** Waits until every queued source is fetched and everything it brought is durable. */
export async function drain(ctx: PassContext): Promise<void> {
  await ctx.queue.onIdle();
  ctx.signal.throwIfAborted();
  await ctx.committer.flush();
}

/** What a pass observes about the host of the origin. */
export interface HostWatch {
  readonly canary: Canary;
  readonly rules: HostRules;
  readonly trouble: Trouble;
}

/** The part of the configuration that decides about the order of fetching. */
export interface PassSettings {
  readonly order: 'newest' | 'oldest';
  readonly first: FirstPart;
}

/**
 * Which part of a large backlog is fetched before the rest, over all folders: mail of the last year, or small
 * messages. `folders`: none, one folder after the other.
 */
export type FirstPart = 'recent' | 'small' | 'folders';

/** What a pass may do in addition to finding what is new. */
export interface PassPolicy {
  /** Answer for every uid of every folder, and refresh every flag. */
  readonly full: boolean;
  /** Accept the deletions that the brake holds, or would hold. */
  readonly acceptEndings: boolean;
  readonly brake: BrakePolicy;
  /** Milliseconds after which a second check of what is held counts. */
  readonly confirmAfterMs: number;
  /** How old an earlier answer may be to spare a request; null, as for a pass by hand, spares none. */
  readonly rhythm: Rhythm | null;
  /** Pages that a full pass read since this time (milliseconds since the epoch) are not read again; null reads all. */
  readonly sweptSince: number | null;
  /** The most relinked places whose sources are fetched and compared, per hour and account; 0 for none. */
  readonly verifyPerHour: number;
}

/** The policy of a pass by hand, where it is fixed: it uses no earlier answers and spares no request. */
export const BY_HAND = { rhythm: null, sweptSince: null, verifyPerHour: 0 } as const;

/** How long answers of earlier passes may be used, in milliseconds. */
export interface Rhythm {
  /** The mailboxes of the account. */
  readonly mailboxesMs: number;
  /** The newest page of a folder whose counts did not change; INBOX and sent mail are read in every pass. */
  readonly folderMs: number;
}
