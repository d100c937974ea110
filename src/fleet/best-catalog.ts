import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { convertSyncErrors, convertWriteErrors } from '../archive/hot-segment.ts';
import { openCatalog, type WritableCatalog } from '../catalog/catalog.ts';
import { CATALOG_VERSION, catalogFile, OLDEST_MIGRATED } from '../catalog/database.ts';
import { isUnusableCatalog, removeCatalogs } from '../catalog/open-writer.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { MailkeepError } from '../core/errors.ts';
import type { StoredArchive, StoredSnapshot } from '../registry/reading.ts';
import { fetchSnapshot } from './snapshots.ts';

/** Kibibytes of pages: a worker has many catalogs open. */
const OPEN = { cacheKib: 2_048 };

/** Where a catalog can come from; `log`: an empty one, into which the whole log is folded. */
export type CatalogFrom = 'folder' | 'snapshot' | 'log';

/** What the folder's own catalog has reached. */
export interface FolderCatalog {
  readonly number: number;
  /** Whether the registry has that commit; otherwise the log has to be read for it. */
  readonly isKnown: boolean;
}

/**
 * Returns how far the catalog in a folder is. Undefined where there is none, or none that can be used: it is damaged, of
 * another version or of another log.
 *
 * @throws the errors of the disk
 */
export async function folderCatalog(
  dir: string,
  stored: StoredArchive,
): Promise<FolderCatalog | undefined> {
  if (!existsSync(catalogFile(dir))) return undefined;
  let catalog: WritableCatalog | undefined;
  try {
    catalog = await openCatalog(dir, catalogFile(dir), OPEN);
    const { number, hash } = catalog.reached();
    if (number > stored.head.headNumber) return undefined;
    // An empty one is of any log.
    const known = number === 0 ? hash : knownHash(stored, number);
    if (known !== undefined && known !== hash) return undefined;
    return { number, isKnown: known !== undefined };
  } catch (error) {
    if (!(error instanceof MailkeepError) || !isUnusableCatalog(error)) throw error;
    return undefined;
  } finally {
    catalog?.close();
  }
}

/** Returns the hash of a commit, where the registry has it. */
function knownHash({ covers, tail, head }: StoredArchive, number: number): string | undefined {
  if (number === head.headNumber) return head.headHash.toString('hex');
  const hash =
    tail.find((batch) => batch.number === number)?.hash ??
    covers.find(({ last }) => last === number)?.lastHash;
  return hash?.toString('hex');
}

/** Returns where the catalog can come from: first whatever lacks least. */
export function catalogsToTry(
  found: FolderCatalog | undefined,
  snapshot: StoredSnapshot | undefined,
): readonly CatalogFrom[] {
  const usable = snapshot !== undefined && isReadable(snapshot) ? snapshot : undefined;
  const isFirst = usable !== undefined && usable.number > (found?.number ?? 0);
  const others: CatalogFrom[] = [
    ...(found === undefined ? [] : ['folder' as const]),
    ...(usable === undefined || isFirst ? [] : ['snapshot' as const]),
    'log',
  ];
  return isFirst ? ['snapshot', ...others] : others;
}

/** False for a snapshot of a newer program, or of one that is too old. */
function isReadable({ catalogVersion }: StoredSnapshot): boolean {
  return catalogVersion >= OLDEST_MIGRATED && catalogVersion <= CATALOG_VERSION;
}

/** What a catalog is opened with. */
export interface CatalogSource {
  readonly dir: string;
  /** For what is not complete yet; it is in the same file system as the archive. */
  readonly spoolDir: string;
  readonly stored: StoredArchive;
  readonly objects: UploadingStore;
  readonly files: FileLayer;
  readonly signal: AbortSignal;
}

/**
 * Opens a catalog, and puts it into the folder if it is not from there.
 *
 * @throws what `isOfNoUse` is true for, `object-missing` and `object-damaged` among it: the folder's catalog is as it was; the
 *   other errors of the object store and the disk; the signal's reason
 */
export async function openFrom(from: CatalogFrom, source: CatalogSource): Promise<WritableCatalog> {
  const { dir, stored } = source;
  const { snapshot } = stored;
  if (from === 'snapshot' && snapshot !== undefined) await bringSnapshot(source, snapshot);
  if (from === 'log') await removeCatalogs(dir);
  return await openCatalog(dir, catalogFile(dir), OPEN);
}

/** The folder's catalog goes only when that of the snapshot is on the disk and was opened. */
async function bringSnapshot(
  { dir, spoolDir, objects, files, signal }: CatalogSource,
  snapshot: StoredSnapshot,
): Promise<void> {
  const fetched = path.join(spoolDir, 'catalog.fetched');
  try {
    await fetchSnapshot(objects, fetched, snapshot, signal);
    const catalog = await openCatalog(dir, fetched, OPEN);
    try {
      const { number, hash } = catalog.reached();
      if (number !== snapshot.number || hash !== snapshot.hash.toString('hex')) {
        const expectedHash = snapshot.hash.toString('hex');
        throw archiveError('log-diverged', {
          file: fetched,
          number,
          expectedHash,
          foundHash: hash,
        });
      }
    } finally {
      catalog.close();
    }
    await removeCatalogs(dir);
    await convertWriteErrors(catalogFile(dir), 0, () => files.rename(fetched, catalogFile(dir)));
    await convertSyncErrors(catalogFile(dir), () => files.syncFolder(dir));
  } finally {
    // One that cannot be used has the text of messages, and no forget looks for it there.
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${fetched}${suffix}`, { force: true });
  }
}

/** Returns whether an error says that a catalog is not one of the log that was opened with it. */
export function isOfAnotherLog({ code, facts }: MailkeepError): boolean {
  if (code === 'log-damaged') return facts.reason === 'diverged' || facts.reason === 'ends-early';
  return ['log-diverged', 'log-ends-early', 'catalog-out-of-step', 'catalog-damaged'].includes(
    code,
  );
}
