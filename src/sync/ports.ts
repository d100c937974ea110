import { MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { CountedFlag, FolderKey, ListedFolder, Listing } from '../core/types.ts';
import type { HostRules, Trouble } from './api-origin.ts';
import type { Committer, Ledger } from './committer.ts';
import type { FetchQueue } from './folder-sync.ts';
import type { Mirror } from './mirror.ts';
import type { BrakePolicy } from './plan/folder-evidence.ts';
import type { Canary } from './verify-unverified.ts';

/** One page of messages. `total` is the origin's own count of the complete answer. */
export interface OriginPage {
  readonly items: readonly Listing[];
  readonly total: number;
  /** Messages per page as the origin states them; it may differ from what was requested. */
  readonly perPage?: number;
}

export interface OriginMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** The folders of a mailbox as the origin lists them, each once. */
export interface FolderListing {
  readonly folders: readonly ListedFolder[];
  /** False when the listing counts more folders than it shows: what it lacks is not gone. */
  readonly complete: boolean;
  /** Folders that are listed without a path: they cannot be requested, and the listing is not complete. */
  readonly withoutPath?: number;
  /** Why the listing ended early: its pages make no progress, or it is longer than any real one. */
  readonly problem?: MailkeepError;
}

/** A raw source that is complete as far as HTTP can detect. The receiver deletes the file. */
export type FetchedSource =
  | { readonly kind: 'buffer'; readonly bytes: Buffer }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly size: number;
      readonly sha256: string;
    };

/** `STORAGE` is in bytes, `MESSAGE` a count; no limit is null. */
export interface QuotaResource {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

/** What the listing of an order says about one of its mailboxes. It may be wrong or out of date. */
export interface ListedUsage {
  readonly address: string;
  readonly suspended: boolean;
  /** When the service counted, milliseconds since the epoch; null when it does not say. */
  readonly countedAt: number | null;
  readonly resources: readonly QuotaResource[];
}

export interface UsageListing {
  readonly mailboxes: readonly ListedUsage[];
  /** Requests that the complete listing takes; only the first page was read where that is too many. */
  readonly pages: number;
  /** Whether every page was read: a mailbox that is not there is not listed. */
  readonly complete: boolean;
}

export type UidOrder = 'ascending' | 'descending';

/**
 * What a pass requests from the origin, for one account. Every call is one request (folders and mailboxes: one per
 * page), already limited and retried; what it throws is final for this pass.
 */
export interface Origin {
  readonly host: string;
  /** Returns the requests per minute in force: the configured limit, or less where the service taught less. */
  requestsPerMinute(): number;
  mailboxes(signal: AbortSignal): Promise<readonly OriginMailbox[]>;
  folders(mailbox: string, signal: AbortSignal): Promise<FolderListing>;
  /** `listMessages` sorted by uid, `page` from 1. */
  list(
    at: FolderKey,
    page: { readonly page: number; readonly perPage: number; readonly order: UidOrder },
    signal: AbortSignal,
  ): Promise<OriginPage>;
  /** `searchMessages` over a uid set, sorted by uid, first page. */
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
  /** Usage and limits of a mailbox; empty where the origin has no quotas. */
  quota(mailbox: string, signal: AbortSignal): Promise<readonly QuotaResource[]>;
  /** The usage of all mailboxes, 100 per request; present only with a token for the platform surface. */
  usages?(mostPages: number, signal: AbortSignal): Promise<UsageListing>;
}

/** What is convenient to remember and may be lost: proofs, waits between retries, learned host rules. */
export type Memory = Pick<StateFile, 'get' | 'set'>;

/**
 * Returns whether something remembered at `at` is younger than `withinMs`. A time in the future is not: it was noted
 * before the clock was set back, and would count as young for too long.
 */
export function isRecent(at: number, now: number, withinMs: number): boolean {
  const age = now - at;
  return age >= 0 && age < withinMs;
}

/** Failures that would affect every mailbox alike, most of them of the origin: continuing would only repeat them. */
const CONCERNS_THE_HOST: ReadonlySet<string> = new Set([
  'sync.marks-seen',
  'origin.unreachable',
  'origin.rate-limited',
  'origin.redirected',
  'segment-elsewhere',
]);

/**
 * Returns whether an error concerns one mailbox, folder or message only, and not all of them: what the origin says
 * about it, a connection that broke after the request had left, each time it was tried (a host that is down accepts
 * no request), and a name that cannot be requested (`..`, halves of surrogate pairs): it came from the origin.
 */
export function concernsOnly(error: unknown): error is MailkeepError {
  if (!(error instanceof MailkeepError)) return false;
  if (isUnaskable(error) || brokeWhileAnswering(error)) return true;
  return error.family === 'origin' && !CONCERNS_THE_HOST.has(error.code);
}

export function isUnaskable(error: MailkeepError): boolean {
  return error.code === 'request-invalid';
}

/** Returns whether a connection broke after the request had left. If that keeps happening it is the host: see Trouble. */
function brokeWhileAnswering(error: MailkeepError): boolean {
  return error.code === 'origin.unreachable' && error.facts.sent === true;
}

/**
 * Returns whether an error ends the pass of its account only: a refused token or a service that fails concerns no other
 * account. A wrong configuration concerns the command that reads it (see `concernsOneAccount`).
 */
export function endsOnlyTheAccount(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && (error.family === 'auth' || error.family === 'origin');
}

/** The same for a program that keeps running, where a token that cannot be read stops its account until it can. */
export function concernsOneAccount(error: unknown): error is MailkeepError {
  return endsOnlyTheAccount(error) || (error instanceof MailkeepError && error.family === 'config');
}

export interface PassContext {
  readonly account: string;
  readonly origin: Origin;
  /** What a pass observes about the host of the origin. */
  readonly host: { readonly canary: Canary; readonly rules: HostRules; readonly trouble: Trouble };
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
  /** The part of the configuration that decides about the order of fetching. */
  readonly settings: { readonly order: 'newest' | 'oldest'; readonly first: FirstPart };
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
interface Rhythm {
  /** The mailboxes of the account. */
  readonly mailboxesMs: number;
  /** The newest page of a folder whose counts did not change; INBOX and sent mail are read in every pass. */
  readonly folderMs: number;
}
