import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/origin.ts';
import type { PassContext } from '../pass-context.ts';
import type { OriginMailbox } from '../ports.ts';
import { isLeftAlone, listUsages, recalledListing, suspendedSince } from '../walk/note-usages.ts';

/** A list this young need not be asked for again because a mailbox was refused. */
const YOUNG_MS = 1_800_000;

/**
 * A refusal by name, where the list of the platform surface shows the mailbox as suspended; else the error itself. A list
 * that may be too old to know is asked for again.
 *
 * @param mailboxes all that the pass is about
 */
export async function byName(
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
    const age = ctx.now() - (last?.at ?? 0);
    const isYoung = age >= 0 && age < YOUNG_MS;
    if (!isYoung && !isLeftAlone(last, ctx.now())) await listUsages(ctx, mailboxes);
  }
  const since = suspendedSince(memory, at);
  if (since === null) return error;
  return syncError('sync.mailbox-suspended', { address, since: new Date(since).toISOString() });
}
