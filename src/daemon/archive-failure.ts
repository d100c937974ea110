import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';
import type { SyncFailure } from '../sync/result.ts';

/** True for a disk that may be better in a while; one that could not promise durability is not trusted again. */
export function isOfTheDisk(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError && error.family === 'disk' && !hasCode(error, 'log-sync-failed')
  );
}

/** What ended a pass for the whole archive, as a named failure. Mistakes of the program stay in the daemon's log. */
export function archiveFailure(account: string, error: unknown): SyncFailure {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  const { family, code, facts } = known;
  return { account, mailbox: null, folder: null, uid: null, family, code, facts };
}
