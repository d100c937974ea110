import { hasCode } from '../../errors/mailkeep-error.ts';
import { syncError } from '../../errors/sync.ts';
import { suspendedSince } from './note-usages.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginMailbox } from './ports.ts';

/** A refusal by name, where the list of the platform surface shows the mailbox as suspended; else the error itself. */
export function byName(
  { memory, origin }: PassContext,
  { resourceId, address }: OriginMailbox,
  error: unknown,
): unknown {
  if (!hasCode(error, 'origin.forbidden') && !hasCode(error, 'origin.mailbox-not-found')) {
    return error;
  }
  const since = suspendedSince(memory, { host: origin.host, mailbox: resourceId });
  if (since === null) return error;
  const facts = { address, since: new Date(since).toISOString() };
  return syncError('sync.mailbox-suspended', facts);
}
