import { hasCode, MailkeepError } from '../core/errors.ts';
import { selects } from '../core/names.ts';
import { folderKey, type ListingCost, mailboxKey } from '../core/state.ts';
import { accountKey, type FolderKey, type MailboxKey } from '../core/types.ts';
import { syncError } from './errors.ts';
import { isListingCheaper, MAILBOXES_PER_REQUEST } from './plan/plan-folder.ts';
import {
  concernsOnly,
  isRecent,
  type ListedUsage,
  type Memory,
  type OriginMailbox,
  type SyncContext,
  type UsageListing,
} from './ports.ts';
import type { MailSelection } from './sync-memory.ts';

/** Memory scope: the last quota reported for each mailbox. */
const QUOTA = 'quota';
/** Quotas change slowly, so they are requested once a day. */
const ASK_AGAIN_MS = 86_400_000;

/** Returns a mailbox's mean message size in bytes from its last reported quota. */
export function recallMeanSize(memory: Memory, at: MailboxKey): number | undefined {
  const entry = memory.get(QUOTA, mailboxKey(at));
  const usage = (resource: string): number =>
    entry?.resources.find(({ name }) => name === resource)?.usage ?? 0;
  const [bytes, messages] = [usage('STORAGE'), usage('MESSAGE')];
  return bytes > 0 && messages > 0 ? bytes / messages : undefined;
}

/** Returns when a mailbox's quota was last reported, in milliseconds since the epoch, or 0. */
function quotaReportedAt(memory: Memory, at: MailboxKey): number {
  return memory.get(QUOTA, mailboxKey(at))?.at ?? 0;
}

/** Reports whether a mailbox's known quota is at least a day old. */
export function isQuotaDue(memory: Memory, at: MailboxKey, now: number): boolean {
  return !isRecent(quotaReportedAt(memory, at), now, ASK_AGAIN_MS);
}

/** Requests a mailbox's quota once a day. A service without quotas is not a failure. */
export async function recordQuota(ctx: SyncContext, at: MailboxKey): Promise<void> {
  if (!isQuotaDue(ctx.memory, at, ctx.now())) return;
  const key = mailboxKey(at);
  try {
    const resources = await ctx.origin.quota(at.mailbox, ctx.signal);
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources });
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources: [] });
  }
}

const LISTING = 'usage-listing';
const SUSPENDED = 'suspended';
/** Pause in Platform API requests after a failure, in milliseconds. */
const AFTER_FAILURE_MS = 3_600_000;
/** If a mailbox is refused, a listing younger than this is not requested again. */
const YOUNG_MS = 1_800_000;

/** Requests the usage of all mailboxes together if that saves requests. Stores a failure without reporting it. */
export async function recordUsages(
  ctx: SyncContext,
  mailboxes: readonly OriginMailbox[],
): Promise<void> {
  const { memory, origin, account } = ctx;
  const { host } = origin;
  if (origin.usages === undefined) return;
  const due = mailboxes.filter(({ resourceId }) =>
    isQuotaDue(memory, { host, mailbox: resourceId }, ctx.now()),
  );
  const last = recallListing(memory, account, host);
  const pages = last?.pages ?? Math.ceil(mailboxes.length / MAILBOXES_PER_REQUEST);
  if (!isListingCheaper(pages, due.length) || failedRecently(last, ctx.now())) return;
  await listUsages(ctx, mailboxes);
}

/** Lists the usage of all mailboxes now, if a token allows it. Stores a failure without reporting it. */
async function listUsages(ctx: SyncContext, mailboxes: readonly OriginMailbox[]): Promise<void> {
  const { memory, origin, account } = ctx;
  if (origin.usages === undefined) return;
  const { host } = origin;
  const context = (): Context => ({ memory, account, host, now: ctx.now() });
  try {
    const mostPages = Math.max(1, Math.floor(mailboxes.length / 2));
    rememberUsages(context(), mailboxes, await origin.usages(mostPages, ctx.signal));
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!(error instanceof MailkeepError)) throw error;
    const pages = recallListing(memory, account, host)?.pages ?? 1;
    rememberFailure(context(), pages);
  }
}

interface Context {
  readonly memory: Memory;
  readonly account: string;
  readonly host: string;
  readonly now: number;
}

/**
 * Stores the listed quotas and suspensions of these mailboxes. The two APIs use different ids, so mailboxes are matched
 * by address, and duplicate addresses are ignored. Clears the suspension of a mailbox missing from a complete listing.
 *
 * @returns the listed usage of each mailbox, by resource id
 */
export function rememberUsages(
  { memory, account, host, now }: Context,
  mailboxes: readonly OriginMailbox[],
  { mailboxes: listed, pages, complete }: UsageListing,
): ReadonlyMap<string, ListedUsage> {
  memory.set(LISTING, accountKey(account, host), { at: now, pages, failed: false });
  const byAddress = new Map<string, ListedUsage | null>();
  for (const usage of listed) {
    const address = usage.address.toLowerCase();
    byAddress.set(address, byAddress.has(address) ? null : usage);
  }
  const result = new Map<string, ListedUsage>();
  for (const { resourceId, address } of mailboxes) {
    const usage = byAddress.get(address.toLowerCase());
    const at = { host, mailbox: resourceId };
    if (usage === undefined && complete) forgetSuspension(memory, at);
    if (usage === undefined || usage === null) continue;
    result.set(resourceId, usage);
    const { countedAt, resources, suspended } = usage;
    // The service's clock may be ahead, which must not extend how long usage remains valid.
    const reportedAt = Math.min(now, countedAt ?? now);
    if (resources.length > 0 && reportedAt > quotaReportedAt(memory, at)) {
      memory.set(QUOTA, mailboxKey(at), { at: reportedAt, resources });
    }
    const since = suspendedSince(memory, at);
    if (suspended !== (since !== null))
      memory.set(SUSPENDED, mailboxKey(at), suspended ? now : null);
  }
  return result;
}

export function rememberFailure({ memory, account, host, now }: Context, pages: number): void {
  memory.set(LISTING, accountKey(account, host), { at: now, pages, failed: true });
}

export function recallListing(
  memory: Pick<Memory, 'get'>,
  account: string,
  host: string,
): ListingCost | undefined {
  return memory.get(LISTING, accountKey(account, host));
}

export function failedRecently(last: ListingCost | undefined, now: number): boolean {
  return last?.failed === true && isRecent(last.at, now, AFTER_FAILURE_MS);
}

/** Clears a mailbox's suspension once it answers or is missing from a listing. A later refusal is then a new issue. */
export function forgetSuspension(memory: Memory, at: MailboxKey): void {
  if (suspendedSince(memory, at) !== null) memory.set(SUSPENDED, mailboxKey(at), null);
}

/** Returns when a mailbox was first listed as suspended, in milliseconds since the epoch. */
export function suspendedSince(
  memory: Pick<Memory, 'get'> | undefined,
  at: MailboxKey,
): number | null {
  return memory?.get(SUSPENDED, mailboxKey(at)) ?? null;
}

/**
 * Returns `sync.mailbox-suspended` for a refused mailbox that the Platform API lists as suspended, otherwise the error
 * itself. Refreshes an old listing first.
 *
 * @param mailboxes all mailboxes of the sync run
 */
export async function suspensionError(
  ctx: SyncContext,
  { resourceId, address }: OriginMailbox,
  mailboxes: readonly OriginMailbox[],
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof MailkeepError)) return error;
  if (!hasCode(error, 'origin.forbidden') && !hasCode(error, 'origin.mailbox-not-found')) {
    return error;
  }
  const { memory, origin, account } = ctx;
  const at = { host: origin.host, mailbox: resourceId };
  if (suspendedSince(memory, at) === null) {
    const last = recallListing(memory, account, origin.host);
    const isYoung = isRecent(last?.at ?? 0, ctx.now(), YOUNG_MS);
    if (!isYoung && !failedRecently(last, ctx.now())) await listUsages(ctx, mailboxes);
  }
  const since = suspendedSince(memory, at);
  if (since === null) return error;
  return syncError('sync.mailbox-suspended', { address, since: new Date(since).toISOString() });
}

/** Memory scope: exclusions in the last sync run's configuration. Never expires. */
const UNWATCHED = 'unwatched';

type UnwatchedNoting = Pick<SyncContext, 'memory' | 'mirror' | 'origin'>;

/**
 * Stores which listed mailboxes are excluded. A run narrowed by the user only shows which ones are included. If none is
 * included, that is a mistake in the configuration, and they become stale.
 */
export function recordExcludedMailboxes(
  ctx: UnwatchedNoting,
  listed: readonly OriginMailbox[],
  { mailboxes, whole }: MailSelection,
): void {
  const isAny = listed.some(({ address }) => selects(mailboxes, address));
  for (const { resourceId, address } of listed) {
    const isWanted = selects(mailboxes, address) || (!isAny && whole?.mailboxes === true);
    // A sync run over one mailbox in a thousand provides no information about the others.
    if (!isWanted && whole?.mailboxes !== true) continue;
    setExcluded(ctx.memory, mailboxKey({ host: ctx.origin.host, mailbox: resourceId }), !isWanted);
  }
}

/**
 * Stores which known folders of a mailbox the configuration excludes, even if the sync run was narrowed. If it excludes
 * all of an included mailbox, they become stale, as `recordExcludedMailboxes` says.
 *
 * @param selected number of listed folders that the sync run reads
 */
export function recordExcludedFolders(
  ctx: UnwatchedNoting,
  key: MailboxKey,
  { folders, whole }: MailSelection,
  selected: number,
): void {
  setExcluded(ctx.memory, mailboxKey(key), false);
  for (const { folder } of ctx.mirror.folders(key)) {
    const at = folderKey({ ...key, folder });
    const { exclude } = folders;
    const isNone = selected === 0 && whole?.folders === true;
    if (isNone || selects(folders, folder)) setExcluded(ctx.memory, at, false);
    else if (whole?.folders === true || !selects({ include: ['*'], exclude }, folder)) {
      setExcluded(ctx.memory, at, true);
    }
  }
}

export function isExcludedMailbox(memory: Pick<Memory, 'get'> | undefined, key: MailboxKey) {
  return memory?.get(UNWATCHED, mailboxKey(key)) === true;
}

export function isExcludedFolder(memory: Pick<Memory, 'get'> | undefined, at: FolderKey): boolean {
  return memory?.get(UNWATCHED, folderKey(at)) === true;
}

function setExcluded(memory: Memory, key: string, isExcluded: boolean): void {
  if ((memory.get(UNWATCHED, key) === true) !== isExcluded) {
    memory.set(UNWATCHED, key, isExcluded ? true : null);
  }
}

/** Memory scope: mailboxes that their account no longer reads. */
const LEFT_BEHIND = 'left-behind';

/**
 * Records that an account which is one mailbox reads this one. Any other mailbox of the account is left behind: its
 * server or user in the configuration has changed.
 */
export function recordLeftBehind(
  { memory, account, startedAt }: Pick<SyncContext, 'memory' | 'account' | 'startedAt'>,
  key: MailboxKey,
  mailboxes: readonly (MailboxKey & { readonly account: string })[],
): void {
  if (leftBehindSince(memory, key) !== null) memory.set(LEFT_BEHIND, mailboxKey(key), null);
  for (const other of mailboxes) {
    if (other.account !== account || mailboxKey(other) === mailboxKey(key)) continue;
    if (leftBehindSince(memory, other) !== null) continue;
    memory.set(LEFT_BEHIND, mailboxKey(other), startedAt);
  }
}

/** Returns when a mailbox was left behind, in milliseconds since the epoch; null if it was not. */
export function leftBehindSince(
  memory: Pick<Memory, 'get'> | undefined,
  at: MailboxKey,
): number | null {
  return memory?.get(LEFT_BEHIND, mailboxKey(at)) ?? null;
}
