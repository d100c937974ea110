import { MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { CountedFlag, FolderKey, ListedFolder, Listing } from '../core/types.ts';
import type { HostRules, Trouble } from './api-origin.ts';
import type { Committer, Ledger } from './committer.ts';
import type { FetchQueue } from './folder-sync.ts';
import type { Mirror } from './mirror.ts';
import type { BrakePolicy } from './plan/folder-evidence.ts';
import type { Canary } from './verify-unverified.ts';

/** One page of messages. `total` is the service's count of the whole result. */
export interface OriginPage {
  readonly items: readonly Listing[];
  readonly total: number;
  /** Messages per page as the service reports it; may differ from the request. */
  readonly perPage?: number;
}

export interface OriginMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** The folders of a mailbox as listed, without duplicates. */
export interface FolderListing {
  readonly folders: readonly ListedFolder[];
  /** False if the listing counts more folders than it shows: missing ones are not gone. */
  readonly complete: boolean;
  /** Folders listed without a path: they cannot be requested, and the listing is incomplete. */
  readonly withoutPath?: number;
  /** Why the listing ended early: its pages make no progress, or it is longer than any real one. */
  readonly problem?: MailkeepError;
}

/** A raw source, complete as far as HTTP can detect. The receiver deletes the file. */
export type FetchedSource =
  | { readonly kind: 'buffer'; readonly bytes: Buffer }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly size: number;
      readonly sha256: string;
    };

/** `STORAGE` is in bytes, `MESSAGE` a count; null for no limit. */
export interface QuotaResource {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

/** A mailbox in the listing of an order. It may be wrong or outdated. */
export interface ListedUsage {
  readonly address: string;
  readonly suspended: boolean;
  /** When the service counted, milliseconds since the epoch; null if unknown. */
  readonly countedAt: number | null;
  readonly resources: readonly QuotaResource[];
}

export interface UsageListing {
  readonly mailboxes: readonly ListedUsage[];
  /** Requests of the whole listing; if too many, only the first page was read. */
  readonly pages: number;
  /** True if every page was read: then a missing mailbox is not listed. */
  readonly complete: boolean;
}

export type UidOrder = 'ascending' | 'descending';

/**
 * The requests of a sync run, for one account. Every call is one request (folders and mailboxes: one per page), already
 * limited and retried; its errors are final for this sync run.
 */
export interface Origin {
  readonly host: string;
  /** Returns the current requests per minute: the configured limit, or a learned lower one. */
  requestsPerMinute(): number;
  mailboxes(signal: AbortSignal): Promise<readonly OriginMailbox[]>;
  folders(mailbox: string, signal: AbortSignal): Promise<FolderListing>;
  /** `listMessages` sorted by uid, `page` from 1. */
  list(
    at: FolderKey,
    page: { readonly page: number; readonly perPage: number; readonly order: UidOrder },
    signal: AbortSignal,
  ): Promise<OriginPage>;
  /** `searchMessages` for a uid set, sorted by uid, first page. */
  search(
    at: FolderKey,
    page: {
      readonly uids: string;
      readonly perPage: number;
      readonly order: UidOrder;
      /** Only messages with this flag. */
      readonly flag?: CountedFlag;
      /** Only messages received on this day (YYYY-MM-DD) or later. */
      readonly since?: string;
    },
    signal: AbortSignal,
  ): Promise<OriginPage>;
  source(at: FolderKey, uid: number, signal: AbortSignal): Promise<FetchedSource>;
  /** Usage and limits of a mailbox; empty if the service has no quotas. */
  quota(mailbox: string, signal: AbortSignal): Promise<readonly QuotaResource[]>;
  /** The usage of all mailboxes, 100 per request; present only with a token for the Platform API. */
  usages?(mostPages: number, signal: AbortSignal): Promise<UsageListing>;
}

/** Disposable memory: proofs, retry waits, learned host rules. */
export type Memory = Pick<StateFile, 'get' | 'set'>;

/** Returns whether `at` is less than `withinMs` ago; false for a future time, from before the clock was set back. */
export function isRecent(at: number, now: number, withinMs: number): boolean {
  const age = now - at;
  return age >= 0 && age < withinMs;
}

/** Failures, mostly of the service, that would repeat for every mailbox. */
const CONCERNS_THE_HOST: ReadonlySet<string> = new Set([
  'sync.marks-seen',
  'origin.unreachable',
  'origin.rate-limited',
  'origin.redirected',
  'segment-elsewhere',
]);

/**
 * Returns whether an error concerns a single mailbox, folder or message: a refusal of it, a connection that broke after
 * each attempt's request was sent (a host that is down accepts no request), or a name from the service that cannot be
 * requested (`..`, unpaired surrogates).
 */
export function concernsOnly(error: unknown): error is MailkeepError {
  if (!(error instanceof MailkeepError)) return false;
  if (isUnaskable(error) || brokeWhileAnswering(error)) return true;
  return error.family === 'origin' && !CONCERNS_THE_HOST.has(error.code);
}

export function isUnaskable(error: MailkeepError): boolean {
  return error.code === 'request-invalid';
}

/** Returns whether a connection broke after the request was sent. If that persists, see `Trouble`. */
function brokeWhileAnswering(error: MailkeepError): boolean {
  return error.code === 'origin.unreachable' && error.facts.sent === true;
}

/**
 * Returns whether an error ends only its account's sync run: a refused token or a failing service does not concern
 * other accounts. A wrong configuration concerns the whole command (see `concernsOneAccount`).
 */
export function endsOnlyTheAccount(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && (error.family === 'auth' || error.family === 'origin');
}

/** Like `endsOnlyTheAccount`, for a long-running program: an unreadable token also stops only its account. */
export function concernsOneAccount(error: unknown): error is MailkeepError {
  return endsOnlyTheAccount(error) || (error instanceof MailkeepError && error.family === 'config');
}

export interface PassContext {
  readonly account: string;
  readonly origin: Origin;
  /** Observations of a sync run about the service's host. */
  readonly host: { readonly canary: Canary; readonly rules: HostRules; readonly trouble: Trouble };
  readonly mirror: Mirror;
  readonly committer: Committer;
  readonly memory: Memory;
  /** Counts, failures and progress. */
  readonly ledger: Ledger;
  /** Source fetches, with the account's concurrency. */
  readonly queue: FetchQueue;
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Stops the account's sync run with the first error given. */
  readonly stop: (error: unknown) => void;
  /** Number of the archive's last commit at the start; 0 for an empty archive. */
  readonly startedAtCommit: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly policy: PassPolicy;
  /** Configuration of the fetch order. */
  readonly settings: { readonly order: 'newest' | 'oldest'; readonly first: FirstPart };
}

/**
 * Runs an action on one mailbox or folder, and returns whether it succeeded. A failure that concerns nothing else is
 * recorded, and the sync run continues; any other failure ends it.
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

/** Waits until every queued source is fetched and durable. */
export async function drain(ctx: PassContext): Promise<void> {
  await ctx.queue.onIdle();
  ctx.signal.throwIfAborted();
  await ctx.committer.flush();
}

/** First part of a large backlog to fetch: last year's or small messages. `folders`: one folder after the other. */
export type FirstPart = 'recent' | 'small' | 'folders';

/** What a sync run may do besides finding new mail. */
export interface PassPolicy {
  /** Confirm every uid of every folder, and refresh every flag. */
  readonly full: boolean;
  /** Accept deletions that the deletion guard holds, or would hold. */
  readonly acceptEndings: boolean;
  readonly brake: BrakePolicy;
  /** Milliseconds until a second check of held messages counts. */
  readonly confirmAfterMs: number;
  /** Maximum age of reusable responses; null, as for a manual sync run, reuses none. */
  readonly rhythm: Rhythm | null;
  /** Skips pages that a full sync read since this time (milliseconds since the epoch); null skips none. */
  readonly sweptSince: number | null;
  /** Limit of unverified messages to fetch and compare, per hour and account; 0 for none. */
  readonly verifyPerHour: number;
}

/** Fixed policy of a manual sync run: reuses no responses and skips no requests. */
export const BY_HAND = { rhythm: null, sweptSince: null, verifyPerHour: 0 } as const;

/** How long earlier responses may be reused, in milliseconds. */
interface Rhythm {
  /** The mailboxes of the account. */
  readonly mailboxesMs: number;
  /** The newest page of a folder with unchanged counts; INBOX and sent mail are read in every sync run. */
  readonly folderMs: number;
}
