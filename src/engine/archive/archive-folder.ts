import { statSync } from 'node:fs';
import { fileSystemOf } from '../../archive/files/file-system.ts';
import { formatPath, logFolder } from '../../archive/format/layout.ts';
import { acquireLock } from '../../archive/write/lock.ts';
import { networkFileSystem } from '../../errors/archive.ts';
import { errnoOf } from '../../errors/mailkeep-error.ts';
import { archiveUnreadable } from '../../errors/system.ts';
import { usageError } from '../../errors/usage.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the user takes the risk of a network file system. */
export function allowsNetwork(env: Environment): boolean {
  return env.MAILKEEP_NETWORK_FILE_SYSTEM === 'allow';
}

/**
 * Refuses to write to an archive that is reached over a network.
 *
 * @throws network-file-system, unless MAILKEEP_NETWORK_FILE_SYSTEM is `allow`
 */
export function refuseNetworkFileSystem(dataDir: string, env: Environment): void {
  if (allowsNetwork(env)) return;
  const found = fileSystemOf(dataDir);
  if (found?.network !== true) return;
  const { type, mountPoint } = found;
  throw networkFileSystem({ dir: dataDir, type, mountPoint });
}

/**
 * Holds the one writer's lock of an archive for as long as `act` takes.
 *
 * @throws archive-in-use, and what `act` throws
 */
export async function withLock<T>(dataDir: string, act: () => Promise<T>): Promise<T> {
  const lock = acquireLock(dataDir);
  try {
    return await act();
  } finally {
    lock.release();
  }
}

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
