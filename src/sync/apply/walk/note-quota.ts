import type { MailboxKey } from '../../../mail/words.ts';
import { concernsOnly } from '../failure-scope.ts';
import type { PassContext } from '../pass-context.ts';
import type { Memory, QuotaResource } from '../ports.ts';

/** Scope of memory: the quota of each mailbox, as the origin last told it. */
export const QUOTA = 'quota';
/** Quotas move slowly: one request a day and mailbox. */
const ASK_AGAIN_MS = 86_400_000;

/** Under which a mailbox's quota is remembered. */
export function quotaKey({ host, mailbox }: MailboxKey): string {
  return JSON.stringify([host, mailbox]);
}

/** Bytes of a mailbox's message on the mean, as the origin last told it; undefined where it does not. */
export function recalledMeanSize(memory: Memory, at: MailboxKey): number | undefined {
  const known = memory.get(QUOTA, quotaKey(at));
  if (typeof known !== 'object' || known === null || !('resources' in known)) return undefined;
  const bytes = usageOf(known.resources, 'STORAGE');
  const messages = usageOf(known.resources, 'MESSAGE');
  return bytes > 0 && messages > 0 ? bytes / messages : undefined;
}

function usageOf(resources: unknown, wanted: string): number {
  for (const resource of Array.isArray(resources) ? resources : []) {
    const { name, usage }: Record<string, unknown> = { ...resource };
    if (name === wanted && typeof usage === 'number') return usage;
  }
  return 0;
}

/** When a mailbox's quota was told last, milliseconds since the epoch; 0 when it never was. */
function quotaTold(memory: Memory, at: MailboxKey): number {
  const known = memory.get(QUOTA, quotaKey(at));
  return typeof known === 'object' && known !== null && 'at' in known ? Number(known.at) : 0;
}

/** True when what is known of a mailbox's quota is a day old. */
export function isQuotaDue(memory: Memory, at: MailboxKey, now: number): boolean {
  const age = now - quotaTold(memory, at);
  return !(age >= 0 && age < ASK_AGAIN_MS);
}

/** Remembers what a listing says of a mailbox's quota, unless something newer is known. */
export function rememberQuota(
  memory: Memory,
  at: MailboxKey,
  told: { readonly at: number; readonly resources: readonly QuotaResource[] },
): void {
  if (told.at > quotaTold(memory, at)) memory.set(QUOTA, quotaKey(at), told);
}

/**
 * Asks for a mailbox's quota once a day, for `status` to show. It is no part of the mirror: an origin that does not
 * tell is not a failure of the pass.
 */
export async function noteQuota(ctx: PassContext, at: MailboxKey): Promise<void> {
  if (!isQuotaDue(ctx.memory, at, ctx.now())) return;
  const key = quotaKey(at);
  try {
    const resources = await ctx.origin.quota(at.mailbox, ctx.signal);
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources });
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources: [] });
  }
}
