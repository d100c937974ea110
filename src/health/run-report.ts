import type { ErrorFamily } from '../errors/mailkeep-error.ts';

/** Something that went wrong in a run, by name. Null: it is about more than that. */
export interface RunFailure {
  readonly account: string | null;
  readonly mailbox: string | null;
  readonly family: ErrorFamily;
  readonly code: string;
  /** One sentence for people. */
  readonly message: string;
}

/** What a run of the daemon came to: a pass, a sweep, a verification, anything that it does by itself. */
export interface RunReport {
  /** `sync`, `sweep`, `verify` and so on. */
  readonly kind: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** `interrupted`: it was asked to stop, and says nothing of how things are. */
  readonly outcome: 'done' | 'failed' | 'interrupted';
  readonly failures: readonly RunFailure[];
  /** What the run was about, accounts by name and mailboxes by address: of these, what has no failure is well. */
  readonly accounts: readonly string[];
  readonly mailboxes: readonly string[];
  /** The copy that it was about, by its address. */
  readonly copy?: string | undefined;
  /** Messages that a verification read back, or that a pruning removed. */
  readonly messages?: number | undefined;
  readonly counts: {
    readonly added: number;
    readonly ended: number;
    readonly bytes: number;
    readonly requests: number;
  };
}
