import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { acquireLock } from '../../archive/write/lock.ts';
import { copiesError } from '../../errors/copies.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { decodeCopyFile, MOST_FILE_BYTES } from '../../offsite/format/copy-file.ts';
import { COPY_NAME, FOLDERS } from '../../offsite/format/names.ts';
import { keyFile, keyFolder, type LocalKey, readLocalKey } from '../../offsite/local-key.ts';
import { findManifests, wholeObject } from '../../offsite/manifests.ts';

/**
 * Returns the keys that this archive has of the copy at a target. The target only says which copy it is: no key is taken
 * from it. A description that is damaged, missing or of another copy does not matter where the rest shows that it is the
 * copy that was begun there.
 *
 * @throws offsite-no-copy, offsite-other-copy, offsite-key-unreadable, copy-file-damaged; what the store throws
 */
export async function ownKeyOf(
  dataDir: string,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<LocalKey> {
  const to = store.label;
  const found = await copyAt(store, signal);
  const described =
    typeof found === 'string' && existsSync(keyFile(dataDir, found))
      ? readLocalKey(keyFile(dataDir, found))
      : undefined;
  if (described?.to === to) return described;
  for (const key of keysFor(dataDir, to)) {
    if (key.copyId !== described?.copyId && (await isThere(key, store, signal))) return key;
  }
  if (described !== undefined) return described;
  if (found === undefined) throw copiesError('offsite-no-copy', { to });
  if (typeof found !== 'string') throw found;
  throw copiesError('offsite-other-copy', { to, found, folder: keyFolder(dataDir) });
}

/** Whether a target has a manifest of a copy that this machine believes, or a recipient as this machine keeps it. */
async function isThere(key: LocalKey, store: ObjectStore, signal: AbortSignal): Promise<boolean> {
  if ((await findManifests(store, key, signal)).newest !== undefined) return true;
  for (const { name, bytes } of key.kept ?? []) {
    if (!name.startsWith(FOLDERS.keys)) continue;
    try {
      if ((await wholeObject(store, name, bytes.length, signal)).equals(bytes)) return true;
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    }
  }
  return false;
}

/**
 * Whether this archive has keys of a copy that was begun at a target. An empty folder there is then a disk that is not
 * mounted, and no place for a readable archive.
 *
 * @throws offsite-key-unreadable
 */
export function hasKeysFor(dataDir: string, to: string): boolean {
  return keysFor(dataDir, to).length > 0;
}

function keysFor(dataDir: string, to: string): LocalKey[] {
  const folder = keyFolder(dataDir);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /^[0-9a-f]{32}\.json$/.test(name))
    .map((name) => readLocalKey(path.join(folder, name)))
    .filter((key) => key.to === to);
}

/**
 * Returns the id of the copy at a target, as it says itself; undefined where there is none, and the damage of a
 * description that cannot be used.
 *
 * @throws copy-file-damaged where a newer program wrote it; what the store throws
 */
async function copyAt(
  store: ObjectStore,
  signal: AbortSignal,
): Promise<string | MailkeepError | undefined> {
  try {
    const bytes = await wholeObject(store, COPY_NAME, MOST_FILE_BYTES, signal);
    return decodeCopyFile(bytes).copyId.toString('hex');
  } catch (error) {
    if (hasCode(error, 'object-missing')) return undefined;
    const isDamaged = error instanceof MailkeepError && error.family === 'damage';
    if (isDamaged && error.facts.reason !== 'newer') return error;
    throw error;
  }
}

/** @throws copy-file-damaged where a newer program wrote the copy; what the store throws */
export async function refuseNewerCopy(store: ObjectStore, signal: AbortSignal): Promise<void> {
  await copyAt(store, signal);
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
