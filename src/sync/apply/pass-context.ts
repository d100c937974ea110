import type PQueue from 'p-queue';
import type { BrakePolicy } from '../plan/brake.ts';
import type { ProgressListener } from '../progress.ts';
import type { Canary } from './canary.ts';
import type { Committer } from './committer.ts';
import type { Trouble } from './failure-scope.ts';
import type { HostRules } from './host-rules.ts';
import type { Ledger } from './ledger.ts';
import type { Memory, Mirror, Origin } from './ports.ts';

/** What every step of one account's pass works with. */
export interface PassContext {
  readonly account: string;
  readonly origin: Origin;
  readonly mirror: Mirror;
  readonly committer: Committer;
  readonly memory: Memory;
  readonly ledger: Ledger;
  readonly canary: Canary;
  readonly hostRules: HostRules;
  readonly trouble: Trouble;
  /** Source fetches; its concurrency is the account's. */
  readonly queue: PQueue;
  readonly now: () => number;
  readonly progress: ProgressListener;
  readonly signal: AbortSignal;
  /** Stops the account's pass: the first error given is the one it ends with. */
  readonly stop: (error: unknown) => void;
  /** Number of the commit the archive had reached when the pass began; 0 for an empty archive. */
  readonly startedAtCommit: number;
  readonly startedAt: number;
  readonly policy: PassPolicy;
  readonly order: 'newest' | 'oldest';
  readonly first: FirstPart;
  readonly requestsPerMinute: number;
}

/**
 * What of a large backlog is fetched before the rest, over all folders: mail of the last year, or small messages.
 * `folders`: nothing, one folder after the other.
 */
export type FirstPart = 'recent' | 'small' | 'folders';

/** What a pass may do beyond looking for what is new. */
export interface PassPolicy {
  /** Answer for every uid of every folder, and refresh every flag. */
  readonly full: boolean;
  /** End what is held by the brake, and what would be. */
  readonly acceptEndings: boolean;
  readonly brake: BrakePolicy;
  /** A second look at what is held counts from this age on. */
  readonly confirmAfterMs: number;
  /** How old an earlier answer may be to spare a request; null, as for a pass by hand, spares none. */
  readonly rhythm: Rhythm | null;
  /** Pages that a full pass read since this time (milliseconds since the epoch) are not read again; null reads all. */
  readonly sweptSince: number | null;
  /** Relinked places whose sources are fetched and compared, at most, in an hour and account; 0 for none. */
  readonly verifyPerHour: number;
}

/** The part of the policy that a pass by hand has: it takes nothing from earlier passes, and spares no request. */
export const BY_HAND = { rhythm: null, sweptSince: null, verifyPerHour: 0 } as const;

/** What a pass may take from earlier ones. Durations in milliseconds. */
export interface Rhythm {
  /** The mailboxes of the account. */
  readonly mailboxesMs: number;
  /** The newest page of a folder whose counts did not move; INBOX and sent mail are asked in every pass. */
  readonly folderMs: number;
}
