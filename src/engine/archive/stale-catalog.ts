import { realFiles } from '../../archive/files/real-files.ts';
import { lastCommitNumber } from '../../archive/read/last-commit.ts';
import { tryLock } from '../../archive/write/lock.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';

/** How far a catalog is behind its log. */
export interface Stale {
  readonly reached: number;
  readonly last: number;
}

/**
 * Returns how far the catalog of an archive is behind its log, or null where it is not, or where a writer is about to
 * bring it along. A damaged log is no reason here: a verification reports it.
 *
 * @param reachedNow returns the number of the commit that the catalog has reached
 */
export function staleCatalog(dataDir: string, reachedNow: () => number): Stale | null {
  const last = lastCommitNumber(dataDir, realFiles);
  if (last === undefined || last <= reachedNow() || hasWriter(dataDir)) return null;
  // A writer may have finished meanwhile.
  const reached = reachedNow();
  return last > reached ? { reached, last } : null;
}

/** The lock is only tried where the catalog is behind. */
function hasWriter(dataDir: string): boolean {
  try {
    tryLock(dataDir);
    return false;
  } catch (error) {
    if (hasCode(error, 'archive-in-use')) return true;
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}
