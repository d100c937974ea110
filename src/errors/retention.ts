import { errorsOf } from './mailkeep-error.ts';

/** Codes of pruning and forgetting, with the facts that fill their sentences. */
export interface RetentionFacts {
  /** The clock shows less than the last commit, or far more: what is old enough cannot be determined. */
  readonly 'retention-clock': {
    readonly direction: 'behind' | 'ahead';
    /** ISO 8601. */
    readonly now: string;
    readonly lastCommit: string;
  };
  /** A hold asks a query, and not every message can be searched yet. */
  readonly 'retention-not-indexed': { readonly pending: number };
  /** A hold's query cannot be read: `other-moment`, `unknown-name`, or the sentence of the error that says why. */
  readonly 'retention-bad-hold': { readonly query: string; readonly problem: string };
  /** A hold of the configuration names what is to be removed: a mailbox, or messages that a query finds. */
  readonly 'forget-on-hold': { readonly hold: string; readonly messages: number };
  /** A daemon cannot finish what `forget` has decided: the catalog it works with has to be rebuilt. */
  readonly 'forget-unfinished': Readonly<Record<never, never>>;
  /** Stopped between two segments; what was decided is in the log. */
  readonly 'purge-interrupted': { readonly left: number };
  /** A message that was purged was asked for. */
  readonly 'message-purged': {
    readonly id: string;
    readonly reason: string;
    /** ISO 8601; null where the log does not say. */
    readonly time: string | null;
  };
  /** Nothing in quarantine is what was chosen. */
  readonly 'forget-nothing-chosen': Readonly<Record<never, never>>;
}

export const retentionError = errorsOf<RetentionFacts>({
  'retention-clock': 'held',
  'retention-not-indexed': 'held',
  'retention-bad-hold': 'config',
  'forget-on-hold': 'held',
  'forget-unfinished': 'held',
  'purge-interrupted': 'interrupted',
  'message-purged': 'usage',
  'forget-nothing-chosen': 'usage',
});
