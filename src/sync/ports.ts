import type { Settings } from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { CountedFlag, FlagSet, FolderKey, ListedFolder, Listing } from '../core/types.ts';
import type { Traffic } from '../imap/traffic.ts';
import type { Committer, Ledger } from './committer.ts';
import type { FailureCounter, HostRules } from './fetch-source.ts';
import type { FetchQueue } from './folder-sync.ts';
import type { Mirror } from './mirror.ts';
import type { DeletionGuardPolicy } from './plan/folder-evidence.ts';
import type { ReadFlagCheck } from './verify-unverified.ts';

/** One page of messages. `total` is the service's count of all matching messages. */
export interface OriginPage {
  readonly items: readonly Listing[];
  readonly total: number;
  /** Uids (ascending) that the service lists and counts, but whose messages it does not show, even when asked again. */
  readonly omitted?: readonly number[];
  /** Page size reported by the service, which can differ from the requested one. */
  readonly perPage?: number;
  /** The folder's UID epoch, if the service reports one. */
  readonly uidValidity?: string;
  /** An id that stays with the folder when it is renamed, and is never reused. Null if the service has none. */
  readonly mailboxId?: string | null;
  /** False if the open folder has no modification sequences, even if its listing shows one. */
  readonly hasModSeqs?: boolean | undefined;
}

/** What a service with certain UID epochs reports about a folder (IMAP STATUS). */
export interface FolderState {
  /** Changes exactly when the service reassigns the folder's uids. Null if the service reports no valid value. */
  readonly uidValidity: string | null;
  /** Lower bound for the uids of later messages. */
  readonly uidNext: number | null;
  /** Increases with every change to a message or flag; decimal, up to 63 bits. Null if the folder has none. */
  readonly highestModSeq: string | null;
}

/** All uids of a folder in one answer. */
interface UidSet {
  readonly uidValidity: string;
  /** Ascending. */
  readonly uids: Uint32Array;
  /** Answered before the uids, so later changes have a higher one. */
  readonly highestModSeq: string | null;
}

/** Messages added or changed since a modification sequence. Says nothing about deleted messages. */
interface FlagChanges {
  readonly changes: readonly {
    readonly uid: number;
    readonly flags: FlagSet;
    readonly modSeq: string;
  }[];
  /** Where the next request can start. */
  readonly highestModSeq: string;
}

export interface OriginMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** A mailbox's folders as listed, without duplicates. */
export interface FolderListing {
  readonly folders: readonly ListedFolder[];
  /** False if the listing counts more folders than it shows. A folder missing from it may still exist. */
  readonly complete: boolean;
  /** Paths of further folders that exist, but are left out: shared ones, and those of other users. */
  readonly leftOut?: readonly string[];
  /** Number of folders listed without a path. They cannot be requested, so the listing is treated as incomplete. */
  readonly withoutPath?: number;
  /** Why the listing ended early: its pages make no progress, or it is longer than any real listing. */
  readonly problem?: MailkeepError;
  /**
   * The folders' states by path, if the service reports them. Later answers about a folder are from the UID epoch
   * listed here, or they are errors (`imap.renumbered`).
   */
  readonly states?: ReadonlyMap<string, FolderState>;
}

/** A raw source, complete as far as HTTP can tell. The receiver deletes the file. */
export type FetchedSource =
  | { readonly kind: 'buffer'; readonly bytes: Buffer }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly size: number;
      readonly sha256: string;
    };

/** `STORAGE` is in bytes, `MESSAGE` is a count. A null `limit` means unlimited. */
export interface QuotaResource {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

/** A mailbox in an order's listing, which can be wrong or outdated. */
export interface ListedUsage {
  readonly address: string;
  readonly suspended: boolean;
  /** Time of the service's count, in milliseconds since the epoch; null if unknown. */
  readonly countedAt: number | null;
  readonly resources: readonly QuotaResource[];
}

export interface UsageListing {
  readonly mailboxes: readonly ListedUsage[];
  /** Number of requests for the whole listing. If that is too many, only the first page was read. */
  readonly pages: number;
  /** True if every page was read, so that absence means the mailbox is not listed. */
  readonly complete: boolean;
}

export type UidOrder = 'ascending' | 'descending';

/**
 * Requests that a sync run makes for one account. Every call is one request (folders and mailboxes: one per page).
 * Requests are already rate-limited and retried, so errors are final for this sync run.
 */
export interface Origin {
  /** The host under which the archive keeps the mailboxes. */
  readonly host: string;
  /** True if the account is one mailbox, so that the archive keeps the account's name with it. */
  readonly isOneMailbox?: boolean;
  /**
   * Returns the current requests per minute: the configured limit, or a lower one learned since. Null if the source
   * does not limit requests.
   */
  requestsPerMinute(): number | null;
  /** Present if the source limits bytes. */
  readonly traffic?: Pick<Traffic, 'limit' | 'speed' | 'endRun' | 'withCompletion'>;
  mailboxes(signal: AbortSignal): Promise<readonly OriginMailbox[]>;
  folders(mailbox: string, signal: AbortSignal): Promise<FolderListing>;
  /** Calls `listMessages` sorted by uid. Pages are numbered from 1. */
  list(
    at: FolderKey,
    page: { readonly page: number; readonly perPage: number; readonly order: UidOrder },
    signal: AbortSignal,
  ): Promise<OriginPage>;
  /** Calls `searchMessages` for a set of uids. Returns the first page, sorted by uid. */
  search(
    at: FolderKey,
    page: {
      readonly uids: string;
      readonly perPage: number;
      readonly order: UidOrder;
      readonly flag?: CountedFlag;
      /** Includes only messages received on or after this day (YYYY-MM-DD). */
      readonly since?: string;
      /** Answers from a new session, to confirm that messages are gone. */
      readonly fresh?: boolean;
    },
    signal: AbortSignal,
  ): Promise<OriginPage>;
  source(at: FolderKey, uid: number, signal: AbortSignal): Promise<FetchedSource>;
  /** A mailbox's usage and limits. Empty if the service has no quotas. */
  quota(mailbox: string, signal: AbortSignal): Promise<readonly QuotaResource[]>;
  /** Total size of the messages in each of these folders, in bytes. Leaves out folders whose size is unknown. */
  folderBytes?(
    mailbox: string,
    folders: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, number>>;
  /** Usage of all mailboxes, 100 per request. Requires a Platform API token. */
  usages?(mostPages: number, signal: AbortSignal): Promise<UsageListing>;
  /** True if a source that `source` returns is always complete, whatever size is listed. */
  readonly sourcesAreComplete?: boolean;
  /** Sources to request at the same time, if the service answers several together. Replaces `rateLimit.concurrency`. */
  readonly sourcesAtOnce?: number;
  /** Returns an id that stays with the message in every folder of this account; null if it has none. */
  stableId?(listing: Listing): string | null;
  /** Returns every uid of a folder. Present if the answer is evidence of which messages are gone. */
  uids?(at: FolderKey, signal: AbortSignal): Promise<UidSet>;
  /**
   * Returns the flags that have changed since an earlier answer. Returns null if the folder has no modification
   * sequences, its UID epoch differs, or too much has changed: every flag must then be read.
   */
  changedSince?(
    at: FolderKey,
    since: { readonly uidValidity: string; readonly modSeq: string },
    signal: AbortSignal,
  ): Promise<FlagChanges | null>;
}

/** Facts that can safely be lost: proofs, retry waits, rules learned about hosts. */
export type Memory = Pick<StateFile, 'get' | 'set'>;

/** Reports whether `at` is less than `withinMs` ago. Returns false for a time in the future (clock set back). */
export function isRecent(at: number, now: number, withinMs: number): boolean {
  const age = now - at;
  return age >= 0 && age < withinMs;
}

const CONCERNS_THE_HOST: ReadonlySet<string> = new Set([
  'sync.marks-seen',
  'origin.unreachable',
  'origin.rate-limited',
  'origin.redirected',
  'imap.unreachable',
  'imap.certificate',
  'imap.starttls-missing',
  'imap.starttls-injection',
  'imap.throttled',
  'imap.day-limit',
]);

/**
 * Reports whether an error concerns a single mailbox, folder or message. The service refused it, its name cannot be
 * requested (`..`, unpaired surrogates), or every attempt's connection broke after the request was sent (a host that is
 * down accepts no request).
 */
export function concernsOnly(error: unknown): error is MailkeepError {
  if (!(error instanceof MailkeepError)) return false;
  if (isInvalidRequest(error) || brokeWhileAnswering(error)) return true;
  return error.family === 'origin' && !CONCERNS_THE_HOST.has(error.code);
}

export function isInvalidRequest(error: MailkeepError): boolean {
  return error.code === 'request-invalid';
}

/**
 * Reports whether a connection broke after the request was sent; over IMAP, after signing in. `FailureCounter` detects
 * repeated breaks.
 */
function brokeWhileAnswering(error: MailkeepError): boolean {
  if (error.code === 'imap.connection-lost') return true;
  return error.code === 'origin.unreachable' && error.facts.sent === true;
}

/**
 * Reports whether an error ends only its account's sync run. A refused token or a failing service does not affect other
 * accounts, but an invalid configuration affects the whole command (see `concernsOneAccount`).
 */
export function endsOnlyTheAccount(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && (error.family === 'auth' || error.family === 'origin');
}

/** Like `endsOnlyTheAccount`, but for long-running programs, where an unreadable token also stops only its account. */
export function concernsOneAccount(error: unknown): error is MailkeepError {
  return endsOnlyTheAccount(error) || (error instanceof MailkeepError && error.family === 'config');
}

export interface SyncContext {
  readonly account: string;
  readonly origin: Origin;
  /** Observations about the service's host. */
  readonly host: {
    readonly readFlagCheck: ReadFlagCheck;
    readonly rules: HostRules;
    readonly failures: FailureCounter;
  };
  readonly mirror: Mirror;
  readonly committer: Committer;
  readonly memory: Memory;
  readonly ledger: Ledger;
  /** Source fetches, limited to the account's concurrency. */
  readonly queue: FetchQueue;
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Stops the account's sync run. Keeps only the first error. */
  readonly stop: (error: unknown) => void;
  /** Number of the archive's last commit when the run started; 0 for an empty archive. */
  readonly startedAtCommit: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly policy: SyncPolicy;
  readonly settings: Pick<Settings['sync'], 'order' | 'first'>;
}

/**
 * Runs an action on one mailbox or folder and returns whether it succeeded. Records a failure that concerns only that
 * mailbox or folder, and lets the sync run continue. Any other failure ends the sync run.
 */
export async function runGuarded(
  ctx: SyncContext,
  at: { readonly mailbox: string; readonly folder?: string },
  act: () => Promise<void>,
): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    if (brokeWhileAnswering(error)) ctx.host.failures.failed(error);
    ctx.ledger.fail(error, at);
    return false;
  }
}

/** Waits until every queued source is fetched and durable. */
export async function drain(ctx: SyncContext): Promise<void> {
  await ctx.queue.onIdle();
  ctx.signal.throwIfAborted();
  await ctx.committer.flush();
}

export interface SyncPolicy {
  /** Confirms every uid of every folder, and refreshes every flag. */
  readonly full: boolean;
  /** Accepts deletions that the deletion guard holds or would hold. */
  readonly acceptEndings: boolean;
  readonly brake: DeletionGuardPolicy;
  /** Milliseconds until a second check can confirm that held messages are gone. */
  readonly confirmAfterMs: number;
  /** How long responses can be reused. Null reuses none, as in manual sync runs. */
  readonly rhythm: {
    readonly mailboxesMs: number;
    /** Applies to the newest page of a folder with unchanged counts. INBOX and sent mail are read in every sync run. */
    readonly folderMs: number;
  } | null;
  /** Skips pages that a full sync has read since this time, in milliseconds since the epoch. Null skips none. */
  readonly sweptSince: number | null;
  /** Unverified messages to fetch and compare per account per hour; 0 for none. */
  readonly verifyPerHour: number;
}

/** Fixed settings of a manual sync run, which reuses no responses and skips no requests. */
export const MANUAL_SYNC = { rhythm: null, sweptSince: null, verifyPerHour: 0 } as const;
