import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { errnoName, errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';

export const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** Not on Windows, where links are rare. A pipe would wait for its other end. */
const NOT_FOLLOWING = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT']);
const NOT_THERE = new Set(['ENOENT', 'ENOTDIR']);
/** Of file systems that cannot sync a folder (network shares, and Windows everywhere): there the rename has to do. */
const FOLDER_SYNC_UNSUPPORTED = new Set(['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM']);

/** Runs an operation that reads, and turns errors of the system into `store-unreadable`. */
export async function reading<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const errno = errnoOf(error);
    if (error instanceof MailkeepError || errno === undefined) throw error;
    throw objectError('store-unreadable', { file, errno }, error);
  }
}

/** Runs an operation that writes, and turns errors of the system into `store-disk-full` and `store-unwritable`. */
export async function writing<T>(file: string, write: () => T | Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const errno = errnoOf(error);
    if (error instanceof MailkeepError || errno === undefined) throw error;
    const code = NO_ROOM.has(errno) ? 'store-disk-full' : 'store-unwritable';
    throw objectError(code, { file, errno }, error);
  }
}

/** Returns what an operation returns, or undefined where nothing is at the path. */
export async function ifThere<T>(act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (NOT_THERE.has(errnoName(error))) return undefined;
    throw error;
  }
}

/** Returns what is at a path, which may be a link; undefined for nothing. */
export function statsAt(file: string): Promise<Stats | undefined> {
  return reading(file, () => ifThere(() => lstat(file)));
}

/**
 * Opens a regular file, and not what a link there leads to; undefined where nothing is there.
 *
 * @throws store-entry-foreign; store-unreadable
 */
export async function openUnlinked(file: string): Promise<FileHandle | undefined> {
  const handle = await reading(file, () =>
    ifThere(() => open(file, constants.O_RDONLY | NOT_FOLLOWING)),
  ).catch((error: unknown) => {
    // A link; a socket, or a device without hardware.
    const errno = error instanceof MailkeepError ? error.facts.errno : undefined;
    if (errno !== 'ELOOP' && errno !== 'ENXIO') throw error;
    throw objectError('store-entry-foreign', { file }, error);
  });
  if (handle === undefined || (await handle.stat()).isFile()) return handle;
  await handle.close();
  throw objectError('store-entry-foreign', { file });
}

/** Writes a new file, and returns once its bytes are on the disk. Errors of their source stay what they are. */
export async function writeDurably(file: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const handle = await writing(file, () => open(file, 'wx', FILE_MODE));
  try {
    for await (const chunk of bytes) await writing(file, () => handle.writeFile(chunk));
    await writing(file, () => handle.sync());
  } finally {
    await handle.close();
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(folder, 'r');
    await handle.sync();
  } catch (error) {
    if (!FOLDER_SYNC_UNSUPPORTED.has(errnoName(error))) throw error;
  } finally {
    await handle?.close();
  }
}
