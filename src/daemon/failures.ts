import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';
import { failureOfAccount, type SyncFailure, type SyncResult } from '../sync/result.ts';
import type { AccountFailure, AccountTrouble } from './ports.ts';

/** A refused token is tried again so slowly that nobody blocks us for it; a changed token file is seen at once. */
const REFUSED = { firstMs: 600_000, longestMs: 3_600_000 };
/** A lost network is usually back soon. */
const AWAY = { firstMs: 5_000, longestMs: 300_000 };

/** An account that waits, and how often it was tried in vain. */
export interface Waiting {
  readonly trouble: AccountTrouble;
  readonly tries: number;
}

/** What ended a pass for the whole account, if something did: such a failure names no mailbox. */
export function accountFailure(result: SyncResult): AccountFailure | undefined {
  return result.failures.find(({ mailbox }) => mailbox === null);
}

/**
 * How long to wait after an account failed, for the first time or again: doubling, with up to half of it left to
 * chance, so that many daemons do not come back at once.
 *
 * @param random from 0 to 1
 */
export function waitAfter(
  failure: Pick<AccountFailure, 'code' | 'family'>,
  before: Waiting | undefined,
  now: number,
  random: number,
): Waiting {
  const state = failure.family === 'auth' || failure.family === 'config' ? 'refused' : 'away';
  const again = before?.trouble.state === state ? before : undefined;
  const tries = (again?.tries ?? 0) + 1;
  const { firstMs, longestMs } = state === 'refused' ? REFUSED : AWAY;
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(tries - 1, 20));
  const since = again === undefined || again.trouble.since > now ? now : again.trouble.since;
  const retryAt = now + Math.round(bound * (0.5 + random / 2));
  return { trouble: { state, code: failure.code, since, retryAt }, tries };
}

/** True for a disk that may be better in a while; a log whose end is not known to be durable is not written to again. */
export function isOfTheDisk(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError &&
    error.family === 'disk' &&
    !hasCode(error, 'log-sync-failed') &&
    !hasCode(error, 'log-thread-ended') &&
    !hasCode(error, 'log-copy-failed')
  );
}

/** What ended a pass for the whole archive, as a named failure. Mistakes of the program stay in the daemon's log. */
export function archiveFailure(account: string, error: unknown): SyncFailure {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  return failureOfAccount(account, known);
}
