import { MailkeepError } from '../../errors/mailkeep-error.ts';

/** Failures that would affect every mailbox alike, most of them of the origin: continuing would only repeat them. */
const CONCERNS_THE_HOST: ReadonlySet<string> = new Set([
  'sync.marks-seen',
  'origin.unreachable',
  'origin.rate-limited',
  'origin.redirected',
  'segment-elsewhere',
]);

/**
 * Returns whether an error concerns one mailbox, folder or message only, and not all of them: what the origin says
 * about it, a connection that broke after the request had left, each time it was tried (a host that is down accepts
 * no request), and a name that cannot be requested (`..`, halves of surrogate pairs): it came from the origin.
 */
export function concernsOnly(error: unknown): error is MailkeepError {
  if (!(error instanceof MailkeepError)) return false;
  if (isUnaskable(error) || brokeWhileAnswering(error)) return true;
  return error.family === 'origin' && !CONCERNS_THE_HOST.has(error.code);
}

export function isUnaskable(error: MailkeepError): boolean {
  return error.code === 'request-invalid';
}

/** Returns whether a connection broke after the request had left. If that keeps happening it is the host: see Trouble. */
export function brokeWhileAnswering(error: MailkeepError): boolean {
  return error.code === 'origin.unreachable' && error.facts.sent === true;
}

/**
 * Returns whether an error ends the pass of its account only: a refused token or a service that fails concerns no other
 * account. A wrong configuration concerns the command that reads it (see `concernsOneAccount`).
 */
export function endsOnlyTheAccount(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && (error.family === 'auth' || error.family === 'origin');
}

/** The same for a program that keeps running, where a token that cannot be read stops its account until it can. */
export function concernsOneAccount(error: unknown): error is MailkeepError {
  return endsOnlyTheAccount(error) || (error instanceof MailkeepError && error.family === 'config');
}
