import { randomBytes } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import path from 'node:path';
import { realFiles } from '../archive/file-system.ts';
import { errnoName, errnoOf, MailkeepError } from '../core/errors.ts';
import { makeFoldersDurably } from '../core/files.ts';
import { objectError } from './errors.ts';
import {
  checkObjectName,
  isPlainName,
  type ObjectFact,
  type ObjectStore,
  type PutOptions,
  requireLength,
  type StoreCapabilities,
} from './object-store.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** Windows has no O_NOFOLLOW, but links are rare there. Without O_NONBLOCK, opening a pipe would hang. */
const NOT_FOLLOWING = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT']);
const NOT_THERE = new Set(['ENOENT', 'ENOTDIR']);

type DiskCode = 'store-unreadable' | 'store-disk-full' | 'store-unwritable';

/** Runs `act`. Converts system errors to the code returned by `codeOf`. */
async function mapErrors<T>(
  file: string,
  act: () => T | Promise<T>,
  codeOf: (errno: string) => DiskCode,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const errno = errnoOf(error);
    if (error instanceof MailkeepError || errno === undefined) throw error;
    throw objectError(codeOf(errno), { file, errno }, error);
  }
}

const reading = <T>(file: string, read: () => Promise<T>): Promise<T> =>
  mapErrors(file, read, () => 'store-unreadable');

const writing = <T>(file: string, write: () => T | Promise<T>): Promise<T> =>
  mapErrors(file, write, (errno) => (NO_ROOM.has(errno) ? 'store-disk-full' : 'store-unwritable'));

/** Runs `act`, and returns undefined if the path does not exist. */
async function ifExists<T>(act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (NOT_THERE.has(errnoName(error))) return undefined;
    throw error;
  }
}

function statsAt(file: string): Promise<Stats | undefined> {
  return reading(file, () => ifExists(() => lstat(file)));
}

/** Returns undefined if there is no file. @throws store-entry-foreign for other entries */
async function regularStats(file: string): Promise<Stats | undefined> {
  const stats = await statsAt(file);
  if (stats === undefined || stats.isFile()) return stats;
  throw objectError('store-entry-foreign', { file });
}

/** Opens a regular file; returns undefined if it does not exist. @throws store-entry-foreign for other entries */
async function openUnlinked(file: string): Promise<FileHandle | undefined> {
  const handle = await reading(file, () =>
    ifExists(() => open(file, constants.O_RDONLY | NOT_FOLLOWING)),
  ).catch((error: unknown) => {
    // ELOOP means a link; ENXIO a socket, or a device without hardware.
    const errno = error instanceof MailkeepError ? error.facts.errno : undefined;
    if (errno !== 'ELOOP' && errno !== 'ENXIO') throw error;
    throw objectError('store-entry-foreign', { file }, error);
  });
  if (handle === undefined || (await handle.stat()).isFile()) return handle;
  await handle.close();
  throw objectError('store-entry-foreign', { file });
}

/** Passes on errors from `bytes` unchanged. */
async function writeDurably(file: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const handle = await writing(file, () => open(file, 'wx', FILE_MODE));
  try {
    for await (const chunk of bytes) await writing(file, () => handle.writeFile(chunk));
    await writing(file, () => handle.sync());
  } finally {
    await handle.close();
  }
}

const CHUNK_BYTES = 1024 * 1024;
/** Prefix of temporary files. The names of objects cannot start with a dot. */
const UNFINISHED = '.unfinished-';
/** A temporary file that was last written this long ago has been abandoned. */
const ABANDONED_MS = 60 * 60_000;

/**
 * Returns a store in a directory, which the first `put` creates. Renames files once they are durable. Does not follow
 * links.
 * @param now milliseconds since 1970
 */
export function folderStore(
  dir: string,
  { now = Date.now }: { readonly now?: () => number } = {},
): ObjectStore {
  return new FolderStore(path.resolve(dir), now);
}

/** Unlike an archive, a copy may be on a file system that refuses to sync folders. */
async function syncFolder(folder: string): Promise<void> {
  await realFiles.syncFolder(folder).catch((error: unknown) => {
    if (errnoName(error) !== 'EPERM') throw error;
  });
}

class FolderStore implements ObjectStore {
  readonly #swept = new Set<string>();

  constructor(
    readonly label: string,
    private readonly now: () => number,
  ) {}

  async put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    { signal, lockUntil }: PutOptions,
  ): Promise<void> {
    const file = this.#fileOf(name);
    if (lockUntil !== undefined) await this.lock();
    signal.throwIfAborted();
    const folder = path.dirname(file);
    await this.#refuseForeignFolders(name);
    await writing(folder, () => makeFoldersDurably(folder, FOLDER_MODE));
    await this.#sweep(folder);
    const unfinished = path.join(folder, `${UNFINISHED}${randomBytes(12).toString('hex')}`);
    try {
      const facts = { store: this.label, name };
      await writeDurably(unfinished, requireLength(facts, length, bytes, signal));
      signal.throwIfAborted();
      await regularStats(file);
      await writing(file, () => rename(unfinished, file));
    } catch (error) {
      await ifExists(() => unlink(unfinished)).catch(() => {});
      throw error;
    }
    await writing(folder, () => syncFolder(folder));
  }

  async lock(): Promise<void> {
    throw objectError('store-unable', { store: this.label, ability: 'lock' });
  }

  async *get(name: string, { signal }: { readonly signal: AbortSignal }): AsyncGenerator<Buffer> {
    const file = this.#fileOf(name);
    const facts = { store: this.label, name };
    await this.#refuseForeignFolders(name);
    const handle = await openUnlinked(file);
    if (handle === undefined) throw objectError('object-missing', facts);
    try {
      const { size } = await reading(file, () => handle.stat());
      let position = 0;
      while (position < size) {
        signal.throwIfAborted();
        const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - position));
        const { bytesRead } = await reading(file, () =>
          handle.read(chunk, 0, chunk.length, position),
        );
        if (bytesRead === 0) throw objectError('object-changed', facts);
        position += bytesRead;
        yield chunk.subarray(0, bytesRead);
      }
    } finally {
      await handle.close();
    }
  }

  async versions(): Promise<readonly string[]> {
    return [];
  }

  async head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined> {
    const file = this.#fileOf(name);
    signal.throwIfAborted();
    await this.#refuseForeignFolders(name);
    const stats = await regularStats(file);
    return stats && factOf(name, stats);
  }

  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact> {
    return this.#listFolder('', prefix, signal);
  }

  async delete(name: string, signal: AbortSignal): Promise<void> {
    if ((await this.head(name, signal)) === undefined) return;
    const file = this.#fileOf(name);
    await writing(file, async () => {
      await ifExists(() => unlink(file));
      await syncFolder(path.dirname(file));
    });
  }

  async abilities(signal: AbortSignal): Promise<StoreCapabilities> {
    signal.throwIfAborted();
    return { keepsVersions: false, locks: false };
  }

  async close(): Promise<void> {}

  /** Removes files left behind by interrupted processes, once per directory. */
  async #sweep(folder: string): Promise<void> {
    if (this.#swept.has(folder)) return;
    this.#swept.add(folder);
    for (const name of await reading(folder, () => readdir(folder))) {
      if (!name.startsWith(UNFINISHED)) continue;
      const file = path.join(folder, name);
      const stats = await statsAt(file);
      if (stats?.isFile() !== true || this.now() - stats.mtimeMs < ABANDONED_MS) continue;
      await writing(file, () => ifExists(() => unlink(file)));
    }
  }

  async *#listFolder(
    above: string,
    prefix: string,
    signal: AbortSignal,
  ): AsyncGenerator<ObjectFact> {
    signal.throwIfAborted();
    const folder = path.join(this.label, above);
    const entries = await reading(folder, () =>
      ifExists(() => readdir(folder, { withFileTypes: true })),
    );
    // A directory sorts as its name plus a slash, and so after a hyphen.
    const children = (entries ?? [])
      .filter((entry) => isPlainName(`${above}${entry.name}`))
      .map((entry) => ({ entry, key: `${above}${entry.name}${entry.isDirectory() ? '/' : ''}` }))
      .sort((one, other) => (one.key < other.key ? -1 : 1));
    for (const { entry, key } of children) {
      const begins = key.startsWith(prefix);
      if (entry.isDirectory()) {
        if (begins || prefix.startsWith(key)) yield* this.#listFolder(key, prefix, signal);
        continue;
      }
      const file = path.join(this.label, ...key.split('/'));
      // Skipping the entry would make the objects below it appear to be missing.
      if (!entry.isFile() && (begins || prefix.startsWith(`${key}/`))) {
        throw objectError('store-entry-foreign', { file });
      }
      if (!begins) continue;
      signal.throwIfAborted();
      const stats = await statsAt(file);
      if (stats?.isFile() === true) yield factOf(key, stats);
    }
  }

  /** Refuses links among an object's parent directories, which would redirect its data. */
  async #refuseForeignFolders(name: string): Promise<void> {
    const levels = name.split('/').slice(0, -1);
    for (let depth = 1; depth <= levels.length; depth += 1) {
      const folder = path.join(this.label, ...levels.slice(0, depth));
      const stats = await statsAt(folder);
      if (stats === undefined) return;
      if (!stats.isDirectory()) throw objectError('store-entry-foreign', { file: folder });
    }
  }

  #fileOf(name: string): string {
    checkObjectName(name, isPlainName);
    return path.join(this.label, ...name.split('/'));
  }
}

function factOf(name: string, { size, mtimeMs }: Stats): ObjectFact {
  return { name, length: size, modified: Math.floor(mtimeMs) };
}
