import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { realFiles } from '../archive/file-system.ts';
import { FOLDER_MODE, logFolder } from '../archive/format.ts';
import { acquireLock } from '../archive/lock.ts';
import { openLogReader } from '../archive/log-reader.ts';
import type { ArchiveCodec } from '../archive/payload.ts';
import { refuseForeignSegment } from '../archive/recovery.ts';
import { sealerOnThread } from '../archive/seal.ts';
import { listSegments } from '../archive/segment-files.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { isUnusableCatalog } from '../catalog/open-writer.ts';
import { catchUp } from '../catalog/rebuild.ts';
import { MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import { openState } from '../core/state.ts';
import type { StoredArchive } from '../registry/reading.ts';
import {
  type CatalogFrom,
  type CatalogSource,
  catalogsToTry,
  folderCatalog,
  isOfAnotherLog,
  openFrom,
} from './best-catalog.ts';
import type { HeldArchive } from './held-archive.ts';
import { type LogSource, openLog, removeOthers } from './local-log.ts';
import { type Manifest, manifestOf } from './manifest.ts';
import { bringState, keepsState, removeState } from './memory.ts';
import type { ObjectNames } from './object-names.ts';
import { FleetStore } from './segments.ts';

export interface TakeOverOptions extends Omit<LogSource, 'files'> {
  readonly names: ObjectNames;
  /** What the registry has of the archive, read since it was claimed. */
  readonly stored: StoredArchive;
  /** The archive's folder on this node; it is made if it is not there. */
  readonly dir: string;
  readonly codec: ArchiveCodec;
  /** Told why something that would have saved work could not be used. The copy is made without it. */
  readonly onUnusable?: (what: CatalogFrom | 'memory', error: MailkeepError) => void;
  /** The real disk if not said. */
  readonly files?: FileLayer;
}

/**
 * Opens an archive that was claimed: makes the folder of this node a copy of what the registry and the object store have, and
 * opens it for writing. Whatever the folder held before, from another holder or an earlier kill, and wherever this is cut off,
 * the next one comes to the same copy. Sealed segments are fetched when they are first needed.
 *
 * @throws `log-fenced` if the archive was lost meanwhile; archive-in-use; manifest-damaged, and `log-damaged` (`diverged`) for
 *   the folder of another archive: nothing was changed; the rest of family `damage`: nothing was committed; the errors of the
 *   object store, the registry, the catalog and the disk
 */
export async function takeOver(options: TakeOverOptions): Promise<Writer> {
  const { held, stored, purges, dir, codec, files = realFiles } = options;
  const closers = new Closers();
  try {
    refuseOther(held, stored);
    const manifest = manifestOf(stored);
    makeFolders(dir, FOLDER_MODE);
    const lock = acquireLock(dir);
    closers.add(() => lock.release());
    if (existsSync(logFolder(dir))) {
      refuseForeignSegment(files, dir, listSegments(files, dir), stored.logId);
    }
    const spoolDir = path.join(dir, 'tmp');
    rmSync(spoolDir, { recursive: true, force: true });
    makeFolders(spoolDir, FOLDER_MODE);
    const found = await folderCatalog(dir, stored);
    if (!keepsState(found, stored)) removeState(dir);
    await removeOthers(files, dir, manifest);
    const trying = catalogsToTry(found, stored.snapshot);
    const level = await openLevel({ ...options, files, spoolDir }, manifest, trying, closers);
    await unless(isUnusableCatalog, options, 'memory', () => bringState(files, dir, stored));
    const state = openState(dir);
    closers.add(() => state.close());
    const sealer = sealerOnThread();
    closers.add(() => sealer.close());
    const { catalog, segments } = level;
    const sources = openLogReader({ dir, locator: catalog.locator, segments });
    closers.add(() => sources.close());
    const close = () => closers.close();
    const archive = { dataDir: dir, ...level, sources, state, purges };
    return { ...archive, codec, sealer, spoolDir, close };
  } catch (error) {
    await closers.close();
    throw error;
  }
}

/** @throws `log-fenced` if what was read is no longer of this lease */
function refuseOther(held: HeldArchive, { head }: StoredArchive): void {
  if (head.epoch !== held.lease.epoch || head.holder !== held.session) {
    held.lose('lease');
    throw archiveError('log-fenced', { commit: null, reason: 'refused' });
  }
  held.moved(head);
}

type Level = Pick<Writer, 'log' | 'catalog' | 'segments'>;
type Opening = TakeOverOptions & LogSource & CatalogSource;

/**
 * Opens log and catalog, and folds what the catalog lacks. Not every catalog shows at once that it is of another log: then the
 * next one is tried. The last is made of the log alone.
 */
async function openLevel(
  options: Opening,
  manifest: Manifest,
  trying: readonly CatalogFrom[],
  closers: Closers,
): Promise<Level> {
  for (const from of trying) {
    const level = await openWith(options, manifest, from, closers);
    if (level !== undefined) return level;
    // What it remembers is of the same log as the catalog was.
    if (from === 'folder') removeState(options.dir);
  }
  throw new Error('the log alone was not enough for a catalog');
}

/** Undefined where the catalog cannot be used. */
async function openWith(
  options: Opening,
  manifest: Manifest,
  from: CatalogFrom,
  closers: Closers,
): Promise<Level | undefined> {
  const { dir, signal } = options;
  // What is made of the log alone is as good as the log.
  const isBad = (error: MailkeepError) => from !== 'log' && isUnusableCatalog(error);
  const catalog = await unless(isBad, options, from, () => openFrom(from, options));
  if (catalog === undefined) return undefined;
  const own = new Closers();
  own.add(() => catalog.close());
  const isOther = (error: MailkeepError) => from !== 'log' && isOfAnotherLog(error);
  const level = await unless(isOther, options, from, async () => {
    try {
      const log = await openLog(options, manifest, catalog);
      own.add(() => log.close());
      const segments = await FleetStore.open({
        ...options,
        unfinishedPurges: () => options.purges.records(),
      });
      own.add(() => segments.close());
      await catchUp({ dir, segments, target: catalog, signal });
      return { catalog, log, segments };
    } catch (error) {
      await own.close();
      throw error;
    }
  });
  closers.add(() => own.close());
  return level;
}

/** Undefined where an error says that something cannot be used, which is reported. */
async function unless<T>(
  isOfNoUse: (error: MailkeepError) => boolean,
  { onUnusable }: Pick<TakeOverOptions, 'onUnusable'>,
  what: CatalogFrom | 'memory',
  act: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof MailkeepError) || !isOfNoUse(error)) throw error;
    onUnusable?.(what, error);
    return undefined;
  }
}

/** What is open, closed from the last to the first. */
class Closers {
  readonly #closers: (() => void | Promise<void>)[] = [];

  add(closer: () => void | Promise<void>): void {
    this.#closers.push(closer);
  }

  /** Closes all of it. @throws what the first that failed threw */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const closer of this.#closers.splice(0).reverse()) {
      try {
        await closer();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
