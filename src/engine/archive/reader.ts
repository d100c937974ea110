import { realFiles } from '../../archive/files/real-files.ts';
import { lastCommitNumber } from '../../archive/read/last-commit.ts';
import {
  type LogReader,
  type LogReaderOptions,
  openLogReader,
} from '../../archive/read/log-reader.ts';
import type { SegmentStore } from '../../archive/read/segment-store.ts';
import { tryLock } from '../../archive/write/lock.ts';
import { type Catalog, openCatalogReader } from '../../catalog/catalog.ts';
import { type CatalogOptions, catalogFile } from '../../catalog/open.ts';
import { locateDataDir } from '../../config/located-fields.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { LocatingContext } from '../context.ts';
import { requireArchive } from './archive-folder.ts';
import { fetchingReader } from './fetching-reader.ts';

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

/** The archive, opened for reading only: with or without a concurrent writer, without configuration or network. */
export interface Reader {
  readonly dataDir: string;
  readonly catalog: Catalog;
  /** Null where the catalog has all that the log has, or a writer is about to bring it along. */
  readonly catalogBehind: Stale | null;
  /** Opened when first asked for. */
  sources(): LogReader;
  /** Lets go of segments that are held open: they may have been replaced. */
  refresh(): void;
  close(): void;
}

/** @throws usage-no-archive, archive-unreadable, catalog-missing, catalog-version, catalog-damaged */
export function openReader({ globals, surroundings, report, only }: LocatingContext): Reader {
  const dataDir = only?.dataDir ?? locateDataDir(globals, surroundings);
  report({ event: 'archive-located', dataDir });
  const reader = openReaderOf(dataDir, {}, only?.segments);
  const { catalogBehind } = reader;
  if (catalogBehind !== null) report({ event: 'catalog-behind', dataDir, ...catalogBehind });
  return reader;
}

/**
 * The same for a folder that is known.
 *
 * @param segments where segments are that are not in the folder; without it, all are
 */
export function openReaderOf(
  dataDir: string,
  options: CatalogOptions = {},
  segments?: SegmentStore,
): Reader {
  requireArchive(dataDir);
  const catalog = openCatalogReader(dataDir, catalogFile(dataDir), options);
  let sources: LogReader | undefined;
  return {
    dataDir,
    catalog,
    catalogBehind: staleCatalog(dataDir, () => catalog.reached().number),
    sources() {
      sources ??= readerOf({ dir: dataDir, locator: catalog.locator }, segments);
      return sources;
    },
    refresh() {
      sources?.refresh();
    },
    close() {
      sources?.close();
      catalog.close();
    },
  };
}

function readerOf(options: LogReaderOptions, segments: SegmentStore | undefined): LogReader {
  if (segments === undefined) return openLogReader(options);
  return fetchingReader(openLogReader({ ...options, segments }), segments);
}
