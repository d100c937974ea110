import { MailkeepError } from '../../src/core/errors.ts';

/** What a search gives, or undefined where it is refused as taking too long. */
export function unlessRefused<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (error instanceof MailkeepError && error.code === 'search-too-complex') return undefined;
    throw error;
  }
}
