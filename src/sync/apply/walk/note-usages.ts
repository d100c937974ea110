import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/sync.ts';
import type { MailboxKey } from '../../../mail/words.ts';
import { accountKey, mailboxKey } from '../../../state/scopes.ts';
import type { ListingCost } from '../../../state/values.ts';
import { listingPaysOff, MAILBOXES_A_REQUEST } from '../../plan/usage-listing.ts';
import type { PassContext } from '../pass-context.ts';
import {
  isRecent,
  type ListedUsage,
  type Memory,
  type OriginMailbox,
  type UsageListing,
} from '../ports.ts';
import { isQuotaDue, rememberQuota } from './note-quota.ts';

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
export async function listUsages(
  ctx: PassContext,
  mailboxes: readonly OriginMailbox[],
): Promise<void> {
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
