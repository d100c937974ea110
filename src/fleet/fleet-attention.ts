import { count, counted, span } from '../core/text.ts';

/** What a person has to do something about. Ages are in milliseconds. */
export type Attention =
  /** A failover of PostgreSQL may take back what it has acknowledged. */
  | { readonly code: 'not-synchronous' }
  /** It happened, and nobody was there to keep what it took back. */
  | { readonly code: 'failed-over'; readonly ageMs: number }
  /** No session lives that takes accounts. */
  | { readonly code: 'no-worker'; readonly accounts: number }
  /** The nodes may take fewer accounts than there are. */
  | { readonly code: 'no-capacity'; readonly accounts: number; readonly capacity: number }
  /** A session is dead, and nobody took its archives. */
  | {
      readonly code: 'orphaned';
      readonly node: string;
      readonly archives: number;
      readonly ageMs: number;
    }
  /** Commits stay in PostgreSQL for too long. */
  | {
      readonly code: 'tail-old';
      readonly name: string;
      readonly tenant: string;
      readonly ageMs: number;
    }
  /** Purges do not end; of the oldest one. */
  | {
      readonly code: 'forget-old';
      readonly name: string;
      readonly tenant: string;
      readonly ageMs: number;
    }
  /** Accounts without a commit since the time that was asked for. */
  | { readonly code: 'stale'; readonly accounts: number };

/** Returns what is wrong with a fleet, and what to do. */
export function attentionText(found: Attention): string {
  switch (found.code) {
    case 'not-synchronous':
      return 'PostgreSQL has no synchronous replica: a failover takes back commits that were acknowledged. Set synchronous_standby_names, and synchronous_commit to on.';
    case 'failed-over':
      return `PostgreSQL failed over ${span(found.ageMs)} ago without a synchronous replica: the newest commits of any account may be gone.`;
    case 'no-worker':
      return `No worker that takes accounts is running: ${counted(found.accounts, 'active account is', 'active accounts are')} not mirrored.`;
    case 'no-capacity':
      return `The running workers take ${counted(found.capacity, 'account')} at most, and ${count(found.accounts)} are active. Raise fleet.capacity or start another node.`;
    case 'orphaned':
      return `${found.node} has been dead for ${span(found.ageMs)}, and nobody took ${counted(found.archives, 'account')} of it.`;
    case 'tail-old':
      return `Commits of ${found.name} (tenant ${found.tenant}) have been in PostgreSQL for ${span(found.ageMs)}; they should be in the bucket after a day. Check the worker that holds it and the bucket.`;
    case 'forget-old':
      return `A forget of ${found.name} (tenant ${found.tenant}) has not ended for ${span(found.ageMs)}: messages that were to be removed may still be somewhere.`;
    case 'stale':
      return `${counted(found.accounts, 'active account has', 'active accounts have')} no commit that is new enough for --max-age.`;
  }
}
