import { statSync } from 'node:fs';
import { tryLock } from '../../archive/lock.ts';
import { lastCommitNumber } from '../../archive/log-head.ts';
import { catalogFile } from '../../catalog/open.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';

/** How far a catalog is behind its log. */
export interface Stale {
  readonly reached: number;
  readonly last: number;
}

/**
 * Returns how far the catalog of an archive is behind its log, or null where it is not, or where a writer is about to
 * bring it along. A log that is damaged tells nothing here: that is for a verification to report.
 *
 * @param reached the number of the commit that the catalog has reached
 */
export function staleCatalog(dataDir: string, reached: number): Stale | null {
  const last = lastCommitNumber(dataDir, changedAt(dataDir));
  if (last === undefined || last <= reached) return null;
  return hasWriter(dataDir) ? null : { reached, last };
}

/** When the catalog was written last: a log that was written before has nothing that it lacks. */
function changedAt(dataDir: string): number {
  const file = catalogFile(dataDir);
  const times = [file, `${file}-wal`].map((name) => {
    const stats = statSync(name, { throwIfNoEntry: false });
    // Those who only read make an empty write-ahead log.
    return stats === undefined || stats.size === 0 ? 0 : stats.mtimeMs;
  });
  return Math.max(...times);
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
