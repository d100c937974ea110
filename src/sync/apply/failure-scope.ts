import { MailkeepError } from '../../errors/mailkeep-error.ts';

/** Failures of the origin that would meet every mailbox alike: going on would only repeat them. */
const CONCERNS_THE_HOST: ReadonlySet<string> = new Set([
  'sync.marks-seen',
  'origin.unreachable',
  'origin.rate-limited',
  'origin.redirected',
]);

/** Failures in a row after which it is the host that fails, and not one message after the other. */
const FAILURES_OF_A_HOST = 20;

/** Counts fetches that failed in a row, whatever they failed with. */
export class Trouble {
  #inARow = 0;

  /** @throws the error itself, when it is one of too many in a row */
  met(error: MailkeepError): void {
    this.#inARow += 1;
    if (this.#inARow >= FAILURES_OF_A_HOST) throw error;
  }

  over(): void {
    this.#inARow = 0;
  }
}

/**
 * True for what the origin says about one mailbox, folder or message, and not about all of them. That holds as
 * well for a request that left and whose connection then broke, every time it was tried: a host that is away
 * takes no request. And for names that cannot be asked for (`..`, halves of surrogate pairs): they came from
 * the origin.
 */
export function concernsOnly(error: unknown): error is MailkeepError {
  if (!(error instanceof MailkeepError)) return false;
  if (isUnaskable(error) || brokeWhileAnswering(error)) return true;
  return error.family === 'origin' && !CONCERNS_THE_HOST.has(error.code);
}

export function isUnaskable(error: MailkeepError): boolean {
  return error.code === 'request-invalid';
}

/** A connection that broke after the request had left. Where that happens over and over it is the host: see Trouble. */
export function brokeWhileAnswering(error: MailkeepError): boolean {
  return error.code === 'origin.unreachable' && error.facts.sent === true;
}

/** Returns whether an error ends the pass of its account only: a wrong token or a service that fails is nobody else's. */
export function endsOnlyTheAccount(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError &&
    (error.family === 'auth' || error.family === 'origin' || error.family === 'config')
  );
}
