import { MailkeepError } from '../errors/mailkeep-error.ts';
import { openCompared } from './implied.ts';

/** The commit that an archive's catalog has reached. One that cannot be read vouches for none: the log speaks for itself. */
export function reachedBy(dir: string) {
  try {
    const catalog = openCompared(dir);
    try {
      return catalog.reached();
    } finally {
      catalog.close();
    }
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}
