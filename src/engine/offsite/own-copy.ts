import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { acquireLock } from '../../archive/write/lock.ts';
import { copiesError } from '../../errors/copies.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { decodeCopyFile, MOST_FILE_BYTES } from '../../offsite/format/copy-file.ts';
import { COPY_NAME } from '../../offsite/format/names.ts';
import { keyFile, keyFolder, type LocalKey, readLocalKey } from '../../offsite/local-key.ts';
import { wholeObject } from '../../offsite/manifests.ts';

/**
 * Returns the keys that this archive has of the copy at a target. The target only says which copy it is: no key is taken
 * from it.
 *
 * @throws offsite-no-copy, offsite-other-copy, offsite-key-unreadable; what the store throws
 */
export async function ownKeyOf(
  dataDir: string,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<LocalKey> {
  const to = store.label;
  const found = await copyAt(store, signal);
  if (found === undefined) throw copiesError('offsite-no-copy', { to });
  const file = keyFile(dataDir, found);
  if (!existsSync(file))
    throw copiesError('offsite-other-copy', { to, found, folder: keyFolder(dataDir) });
  return readLocalKey(file);
}

/**
 * Whether this archive has keys of a copy that was begun at a target. An empty folder there is then a disk that is not
 * mounted, and no place for a readable archive.
 *
 * @throws offsite-key-unreadable
 */
export function hasKeysFor(dataDir: string, to: string): boolean {
  const folder = keyFolder(dataDir);
  if (!existsSync(folder)) return false;
  return readdirSync(folder)
    .filter((name) => /^[0-9a-f]{32}\.json$/.test(name))
    .some((name) => readLocalKey(path.join(folder, name)).to === to);
}

/** Returns the id of the copy at a target, as it says itself; undefined where there is none. */
export async function copyAt(store: ObjectStore, signal: AbortSignal): Promise<string | undefined> {
  try {
    const bytes = await wholeObject(store, COPY_NAME, MOST_FILE_BYTES, signal);
    return decodeCopyFile(bytes).copyId.toString('hex');
  } catch (error) {
    if (hasCode(error, 'object-missing')) return undefined;
    throw error;
  }
}

/**
 * Holds the right to write to a copy for as long as `act` takes.
 *
 * @throws offsite-in-use where another process of this archive writes to it
 */
export async function withCopyLock<T>(
  dataDir: string,
  { copyId }: Pick<LocalKey, 'copyId'>,
  to: string,
  act: () => Promise<T>,
): Promise<T> {
  const lock = lockOf(path.join(keyFolder(dataDir), copyId), to);
  try {
    return await act();
  } finally {
    lock.release();
  }
}

function lockOf(folder: string, to: string) {
  try {
    return acquireLock(folder);
  } catch (error) {
    if (!hasCode(error, 'archive-in-use')) throw error;
    throw copiesError('offsite-in-use', { to }, error);
  }
}
