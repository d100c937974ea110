import { MailkeepError } from '../errors/mailkeep-error.ts';

/** Returns undefined where a catalog cannot be read: comparing it without settling reports why. */
export function unlessTroubled<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return undefined;
  }
}
