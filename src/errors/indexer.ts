import { MailkeepError } from './mailkeep-error.ts';

/** A rebuild was interrupted; the catalog that was there before is untouched. */
export function rebuildInterrupted(commits: number) {
  return new MailkeepError('interrupted', 'rebuild-interrupted', { commits }, { retryable: true });
}
