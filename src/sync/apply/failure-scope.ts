import { MailkeepError } from '../../errors/mailkeep-error.ts';

/** Failures of the origin that would meet every mailbox alike: going on would only repeat them. */
const CONCERNS_THE_HOST: ReadonlySet<string> = new Set(['sync.marks-seen', 'origin.unreachable']);

/** True for what the origin says about one mailbox, folder or message, and not about all of them. */
export function concernsOnly(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError &&
    error.family === 'origin' &&
    !CONCERNS_THE_HOST.has(error.code)
  );
}
