import type PQueue from 'p-queue';
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
  readonly order: 'newest' | 'oldest';
  readonly requestsPerMinute: number;
}
