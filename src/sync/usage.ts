import { hasCode, MailkeepError } from '../core/errors.ts';
import { selects } from '../core/names.ts';
import { accountKey, folderKey, type ListingCost, mailboxKey } from '../core/state.ts';
import type { FolderKey, MailboxKey } from '../core/types.ts';
import { syncError } from './errors.ts';
import { listingPaysOff, MAILBOXES_A_REQUEST } from './plan/plan-folder.ts';
import {
  concernsOnly,
  isRecent,
  type ListedUsage,
  type Memory,
  type OriginMailbox,
  type PassContext,
  type QuotaResource,
  type UsageListing,
} from './ports.ts';
import type { Wanted } from './sync-memory.ts';

/** Scope of memory: the quota of each mailbox, as the origin last reported it. */
const QUOTA = 'quota';
/** Quotas change slowly: one request per day and mailbox. */
const ASK_AGAIN_MS = 86_400_000;

/** Returns the mean size of a mailbox's messages in bytes, as last reported; undefined when the origin reports none. */
export function recalledMeanSize(memory: Memory, at: MailboxKey): number | undefined {
  const known = memory.get(QUOTA, mailboxKey(at));
  const usage = (wanted: string): number =>
    known?.resources.find(({ name }) => name === wanted)?.usage ?? 0;
  const [bytes, messages] = [usage('STORAGE'), usage('MESSAGE')];
  return bytes > 0 && messages > 0 ? bytes / messages : undefined;
}

/** Returns when a mailbox's quota was last reported, milliseconds since the epoch; 0 for never. */
function quotaReportedAt(memory: Memory, at: MailboxKey): number {
  return memory.get(QUOTA, mailboxKey(at))?.at ?? 0;
}

/** Returns whether what is known of a mailbox's quota is a day old. */
export function isQuotaDue(memory: Memory, at: MailboxKey, now: number): boolean {
  return !isRecent(quotaReportedAt(memory, at), now, ASK_AGAIN_MS);
}

/** Remembers what a listing reports about a mailbox's quota, unless something newer is known. */
function rememberQuota(
  memory: Memory,
  at: MailboxKey,
  reported: { readonly at: number; readonly resources: readonly QuotaResource[] },
): void {
  if (reported.at > quotaReportedAt(memory, at)) memory.set(QUOTA, mailboxKey(at), reported);
}

/**
 * Requests a mailbox's quota once a day, for `status` to show. It is no part of the mirror: an origin that reports none
 * is not a failure of the pass.
 */
export async function noteQuota(ctx: PassContext, at: MailboxKey): Promise<void> {
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

/** Scope of memory: what the last listing of each account's order cost, or that it failed. */
const LISTING = 'usage-listing';
/** Scope of memory: since when the listing shows a mailbox as suspended. */
const SUSPENDED = 'suspended';
/** After a failure, the platform surface is not asked for this long. */
const AFTER_FAILURE_MS = 3_600_000;
/** A younger list is not requested again because a mailbox was refused: half an hour. */
const YOUNG_MS = 1_800_000;

/**
 * Requests the usage of all mailboxes at once where many would be requested one by one. It saves requests and is
 * otherwise like `noteQuota`: no part of the mirror, and no failure of the pass.
 */
export async function noteUsages(
  ctx: PassContext,
  mailboxes: readonly OriginMailbox[],
): Promise<void> {
  const { memory, origin, account } = ctx;
  const { host } = origin;
  if (origin.usages === undefined) return;
  const due = mailboxes.filter(({ resourceId }) =>
    isQuotaDue(memory, { host, mailbox: resourceId }, ctx.now()),
  );
  const last = recalledListing(memory, account, host);
  const pages = last?.pages ?? Math.ceil(mailboxes.length / MAILBOXES_A_REQUEST);
  if (!listingPaysOff(pages, due.length) || isLeftAlone(last, ctx.now())) return;
  await listUsages(ctx, mailboxes);
}

/** Lists the usage of all mailboxes now, if there is a token for it. A failure is remembered, but not reported. */
async function listUsages(ctx: PassContext, mailboxes: readonly OriginMailbox[]): Promise<void> {
  const { memory, origin, account } = ctx;
  if (origin.usages === undefined) return;
  const { host } = origin;
  const noting = (): Noting => ({ memory, account, host, now: ctx.now() });
  try {
    const mostPages = Math.max(1, Math.floor(mailboxes.length / 2));
    rememberUsages(noting(), mailboxes, await origin.usages(mostPages, ctx.signal));
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!(error instanceof MailkeepError)) throw error;
    const pages = recalledListing(memory, account, host)?.pages ?? 1;
    rememberFailure(noting(), pages);
  }
}

interface Noting {
  readonly memory: Memory;
  readonly account: string;
  readonly host: string;
  readonly now: number;
}

/**
 * Remembers what a listing says about these mailboxes: quotas, and which are suspended. The two surfaces have ids of
 * their own, so mailboxes are matched by address; an address that is listed twice is ignored. A mailbox that a complete
 * listing lacks is not known to be suspended any more.
 *
 * @returns the listed usage of each mailbox, by resource id
 */
export function rememberUsages(
  { memory, account, host, now }: Noting,
  mailboxes: readonly OriginMailbox[],
  { mailboxes: listed, pages, complete }: UsageListing,
): ReadonlyMap<string, ListedUsage> {
  memory.set(LISTING, accountKey(account, host), { at: now, pages, failed: false });
  const byAddress = new Map<string, ListedUsage | null>();
  for (const usage of listed) {
    const address = usage.address.toLowerCase();
    byAddress.set(address, byAddress.has(address) ? null : usage);
  }
  const said = new Map<string, ListedUsage>();
  for (const { resourceId, address } of mailboxes) {
    const usage = byAddress.get(address.toLowerCase());
    const at = { host, mailbox: resourceId };
    if (usage === undefined && complete) forgetSuspension(memory, at);
    if (usage === undefined || usage === null) continue;
    said.set(resourceId, usage);
    const { countedAt, resources, suspended } = usage;
    // A service clock that is ahead of ours must not make a usage valid for longer.
    if (resources.length > 0) {
      rememberQuota(memory, at, { at: Math.min(now, countedAt ?? now), resources });
    }
    const since = suspendedSince(memory, at);
    if (suspended !== (since !== null))
      memory.set(SUSPENDED, mailboxKey(at), suspended ? now : null);
  }
  return said;
}

export function rememberFailure({ memory, account, host, now }: Noting, pages: number): void {
  memory.set(LISTING, accountKey(account, host), { at: now, pages, failed: true });
}

/** Returns the last listing of an account's order; undefined before the first. */
export function recalledListing(
  memory: Pick<Memory, 'get'>,
  account: string,
  host: string,
): ListingCost | undefined {
  return memory.get(LISTING, accountKey(account, host));
}

/** Returns true for a while after a listing failed. */
export function isLeftAlone(last: ListingCost | undefined, now: number): boolean {
  return last?.failed === true && isRecent(last.at, now, AFTER_FAILURE_MS);
}

/**
 * Forgets that a list called a mailbox suspended: it answered, or is not listed any more. A later refusal is a new
 * matter.
 */
export function forgetSuspension(memory: Memory, at: MailboxKey): void {
  if (suspendedSince(memory, at) !== null) memory.set(SUSPENDED, mailboxKey(at), null);
}

/** Returns since when the listing shows a mailbox as suspended, milliseconds since the epoch; null if it does not. */
export function suspendedSince(
  memory: Pick<Memory, 'get'> | undefined,
  at: MailboxKey,
): number | null {
  return memory?.get(SUSPENDED, mailboxKey(at)) ?? null;
}

/**
 * Returns `sync.mailbox-suspended` for a refused mailbox that the list of the platform surface shows as suspended;
 * else the error itself. A list that may be too old to know is requested again.
 *
 * @param mailboxes all that the pass covers
 */
export async function refusalByName(
  ctx: PassContext,
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
    const last = recalledListing(memory, account, origin.host);
    const isYoung = isRecent(last?.at ?? 0, ctx.now(), YOUNG_MS);
    if (!isYoung && !isLeftAlone(last, ctx.now())) await listUsages(ctx, mailboxes);
  }
  const since = suspendedSince(memory, at);
  if (since === null) return error;
  return syncError('sync.mailbox-suspended', { address, since: new Date(since).toISOString() });
}

/** Scope of memory: what the configuration of the last pass left out. It is compared with no answer, so it is never out of date. */
const UNWATCHED = 'unwatched';

type UnwatchedNoting = Pick<PassContext, 'memory' | 'mirror' | 'origin'>;

/**
 * Remembers which mailboxes of an account are left out, known ones or not. A pass that was narrowed by hand shows only
 * which are not.
 */
export function noteUnwatchedMailboxes(
  ctx: UnwatchedNoting,
  listed: readonly OriginMailbox[],
  { mailboxes, whole }: Wanted,
): void {
  for (const { resourceId, address } of listed) {
    const wanted = selects(mailboxes, address);
    // First: a pass over one of a thousand mailboxes knows nothing about the others.
    if (!wanted && whole?.mailboxes !== true) continue;
    note(ctx.memory, mailboxKey({ host: ctx.origin.host, mailbox: resourceId }), !wanted);
  }
}

/** Does the same for the known folders of a mailbox. An excluded folder is left out however a pass is narrowed. */
export function noteUnwatchedFolders(
  ctx: UnwatchedNoting,
  key: MailboxKey,
  { folders, whole }: Wanted,
): void {
  note(ctx.memory, mailboxKey(key), false);
  for (const { folder } of ctx.mirror.folders(key)) {
    const at = folderKey({ ...key, folder });
    const { exclude } = folders;
    if (selects(folders, folder)) note(ctx.memory, at, false);
    else if (whole?.folders === true || !selects({ include: ['*'], exclude }, folder)) {
      note(ctx.memory, at, true);
    }
  }
}

export function isUnwatchedMailbox(memory: Pick<Memory, 'get'> | undefined, key: MailboxKey) {
  return memory?.get(UNWATCHED, mailboxKey(key)) === true;
}

export function isUnwatchedFolder(memory: Pick<Memory, 'get'> | undefined, at: FolderKey): boolean {
  return memory?.get(UNWATCHED, folderKey(at)) === true;
}

function note(memory: Memory, key: string, unwatched: boolean): void {
  if ((memory.get(UNWATCHED, key) === true) !== unwatched) {
    memory.set(UNWATCHED, key, unwatched ? true : null);
  }
}
