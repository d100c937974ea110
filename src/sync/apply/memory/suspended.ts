import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/sync.ts';
import type { PassContext } from '../pass-context.ts';
import type { OriginMailbox } from '../ports.ts';
import { isLeftAlone, listUsages, recalledListing, suspendedSince } from '../walk/note-usages.ts';

/** A younger list is not requested again because a mailbox was refused: half an hour. */
const YOUNG_MS = 1_800_000;

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
    const age = ctx.now() - (last?.at ?? 0);
    const isYoung = age >= 0 && age < YOUNG_MS;
    if (!isYoung && !isLeftAlone(last, ctx.now())) await listUsages(ctx, mailboxes);
  }
  const since = suspendedSince(memory, at);
  if (since === null) return error;
  return syncError('sync.mailbox-suspended', { address, since: new Date(since).toISOString() });
}
