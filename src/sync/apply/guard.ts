import { brokeWhileAnswering, concernsOnly } from './failure-scope.ts';
import type { PassContext } from './pass-context.ts';

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
