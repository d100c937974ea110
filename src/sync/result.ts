import type { ErrorFamily, Facts } from '../core/errors.ts';
import { addSums, differsByHeldOnly, type FolderSums } from './plan/folder-evidence.ts';
import type { Forecast } from './plan/plan-folder.ts';

/** Result of a sync run for one mailbox. Counts are messages, once per folder; `bytes` are raw source bytes fetched. */
export interface MailboxResult {
  readonly address: string;
  readonly folders: number;
  readonly added: number;
  readonly ended: number;
  readonly flagsChanged: number;
  readonly relinked: number;
  /** Messages matched without download that were fetched since; `corrected` ones turned out to be other messages. */
  readonly verified: number;
  readonly corrected: number;
  readonly quarantined: number;
  readonly held: number;
  /** ISO 8601. The first sync run after this time accepts held deletions that remain; null if there are none. */
  readonly heldUntil: string | null;
  readonly bytes: number;
  /** Folders compared with the archive, in this sync run or so recently that it skipped them. */
  readonly compared: number;
  /** How many folders were compared: others may have changed. */
  readonly comparison: 'all' | 'some' | 'none';
}

/** A failure that did not stop the rest. */
export interface SyncFailure {
  /** Empty for a failure of the archive itself. */
  readonly account: string;
  readonly mailbox: string | null;
  readonly folder: string | null;
  readonly uid: number | null;
  readonly family: ErrorFamily;
  readonly code: string;
  readonly facts: Facts;
}

/**
 * Reconciliation of a folder: `originTotal` = stored + assumed + quarantined + forgotten. Held messages are pending
 * deletions, which the service does not count. `complete` requires equal sums, no held messages, and a response for
 * every uid.
 */
export interface FolderCertificate extends FolderSums {
  readonly mailbox: string;
  readonly folder: string;
  readonly originTotal: number;
  readonly complete: boolean;
}

/** Returns whether only held messages make a folder incomplete: a user decision, not a fault of the service. */
export function isHeldOnly(folder: FolderCertificate): boolean {
  return !folder.complete && differsByHeldOnly(folder.originTotal, folder);
}

/** A folder that the configuration excludes: it is not synced, and nothing in it counts as deleted. */
export interface ExcludedFolder {
  readonly mailbox: string;
  readonly folder: string;
}

/** The result of one sync run, in the shape that `sync --json` prints. */
export interface SyncResult {
  readonly mailboxes: readonly MailboxResult[];
  readonly requests: number;
  readonly requestsByOperation: Readonly<Record<string, number>>;
  /** `fetchMs`: until everything was durable. `indexMs`: from then until everything was searchable. */
  readonly timings: { readonly fetchMs: number; readonly indexMs: number };
  readonly durationMs: number;
  readonly failures: readonly SyncFailure[];
  readonly certificates: readonly FolderCertificate[];
  readonly excluded: readonly ExcludedFolder[];
}

export const NOTHING_DONE: Omit<MailboxResult, 'address'> = {
  folders: 0,
  added: 0,
  ended: 0,
  flagsChanged: 0,
  relinked: 0,
  verified: 0,
  corrected: 0,
  quarantined: 0,
  held: 0,
  heldUntil: null,
  bytes: 0,
  compared: 0,
  comparison: 'none',
};

/** Returns the result of an empty sync run that took this many milliseconds. */
export function emptyResult(durationMs: number): SyncResult {
  return {
    mailboxes: [],
    requests: 0,
    requestsByOperation: {},
    timings: { fetchMs: durationMs, indexMs: 0 },
    durationMs,
    failures: [],
    certificates: [],
    excluded: [],
  };
}

/** Adds up the reconciliations of several folders; null if none was compared. */
export function sumOf(certificates: readonly FolderCertificate[]) {
  if (certificates.length === 0) return null;
  return {
    ...addSums(certificates),
    originTotal: certificates.reduce((sum, { originTotal }) => sum + originTotal, 0),
    complete: certificates.every(({ complete }) => complete),
    folders: certificates.length,
  };
}

/** Returns the failure of an account; of the archive itself if the account is empty. */
export function failureOfAccount(
  account: string,
  { family, code, facts }: Pick<SyncFailure, 'family' | 'code' | 'facts'>,
): SyncFailure {
  return { account, mailbox: null, folder: null, uid: null, family, code, facts };
}

type Counted = { [F in keyof MailboxResult]: MailboxResult[F] extends number ? F : never };

/** Returns the sums of these counts over all mailboxes. */
export function totalsOf<F extends Counted[keyof MailboxResult]>(
  mailboxes: readonly MailboxResult[],
  ...counts: readonly F[]
): Readonly<Record<F, number>>;
export function totalsOf(
  mailboxes: readonly MailboxResult[],
  ...counts: readonly Counted[keyof MailboxResult][]
): Readonly<Record<string, number>> {
  const sum = (count: Counted[keyof MailboxResult]): number =>
    mailboxes.reduce((total, mailbox) => total + mailbox[count], 0);
  return Object.fromEntries(counts.map((count) => [count, sum(count)]));
}

/** Progress of a sync run. A listener prints or counts; it must not throw or block. */
export type SyncProgress =
  /** Before anything is fetched, if more than a few new messages remain. */
  | { readonly event: 'forecast'; readonly account: string; readonly forecast: Forecast }
  | {
      readonly event: 'mailbox-started';
      readonly account: string;
      readonly address: string;
      /** Remaining messages of this mailbox, by the folder listing. */
      readonly messages: number;
    }
  /** After each durable batch: running sums of one mailbox. `bytes` are raw source bytes. */
  | {
      readonly event: 'stored';
      readonly account: string;
      readonly address: string;
      readonly messages: number;
      readonly bytes: number;
    }
  | { readonly event: 'mailbox-finished'; readonly account: string; readonly address: string }
  /** After each request: all requests of the sync run so far, and the current rate. */
  | {
      readonly event: 'requests';
      readonly account: string;
      readonly requests: number;
      readonly perMinute: number;
    }
  /** The limiter delays the sync run until `until` (milliseconds since the epoch). */
  | {
      readonly event: 'waiting';
      readonly account: string;
      readonly until: number;
      readonly reason: 'rate' | 'retry-after' | 'paused';
    }
  | { readonly event: 'indexing'; readonly indexed: number; readonly remaining: number }
  | { readonly event: 'sealing'; readonly segment: number };

export type ProgressListener = (event: SyncProgress) => void;
