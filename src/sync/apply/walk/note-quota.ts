import type { MailboxKey } from '../../../mail/words.ts';
import { mailboxKey } from '../../../state/scopes.ts';
import { concernsOnly } from '../failure-scope.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent, type Memory, type QuotaResource } from '../ports.ts';

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
export function rememberQuota(
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
