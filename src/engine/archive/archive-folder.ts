import { statSync } from 'node:fs';
import { formatPath, logFolder } from '../../archive/format/layout.ts';
import { errnoOf } from '../../errors/mailkeep-error.ts';
import { archiveUnreadable } from '../../errors/system.ts';
import { usageError } from '../../errors/usage.ts';

/** Of these the system says that there is nothing at a path, or that there cannot be. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR']);

/**
 * Returns whether a folder holds an archive.
 *
 * @param damaged whether a log without its FORMAT counts
 * @throws archive-unreadable where the system does not let us look
 */
export function holdsArchive(dataDir: string, damaged = false): boolean {
  const exists = (file: string): boolean => {
    try {
      statSync(file);
      return true;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      if (ABSENT.has(errno)) return false;
      throw archiveUnreadable(dataDir, errno, error);
    }
  };
  return exists(formatPath(dataDir)) || (damaged && exists(logFolder(dataDir)));
}

/** @throws usage-no-archive; archive-unreadable */
export function requireArchive(dataDir: string, damaged = false): void {
  if (!holdsArchive(dataDir, damaged)) throw usageError('usage-no-archive', { dataDir });
}
