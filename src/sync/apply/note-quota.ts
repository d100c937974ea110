import type { MailboxKey } from '../../mail/words.ts';
import { concernsOnly } from './failure-scope.ts';
import type { PassContext } from './pass-context.ts';
import type { Memory } from './ports.ts';

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

/**
 * Asks for a mailbox's quota once a day, for `status` to show. It is no part of the mirror: an origin that does not
 * tell is not a failure of the pass.
 */
export async function noteQuota(ctx: PassContext, at: MailboxKey): Promise<void> {
  const key = quotaKey(at);
  const known = ctx.memory.get(QUOTA, key);
  const askedAt =
    typeof known === 'object' && known !== null && 'at' in known ? Number(known.at) : 0;
  const age = ctx.now() - askedAt;
  if (age >= 0 && age < ASK_AGAIN_MS) return;
  try {
    const resources = await ctx.origin.quota(at.mailbox, ctx.signal);
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources });
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    ctx.memory.set(QUOTA, key, { at: ctx.now(), resources: [] });
  }
}
