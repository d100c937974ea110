import { type LogReader, openLogReader } from '../../archive/read/log-reader.ts';
import { type Catalog, openCatalogReader } from '../../catalog/catalog.ts';
import { locateDataDir } from '../../config/data-dir.ts';
import type { EngineContext } from '../context.ts';
import { requireArchive } from './archive-folder.ts';
import { type Stale, staleCatalog } from './stale-catalog.ts';

/** The archive as those have it who only read: beside a writer or without one, without configuration or network. */
export interface Reader {
  readonly dataDir: string;
  readonly catalog: Catalog;
  /** Null where the catalog has all that the log has, or a writer is about to bring it along. */
  readonly catalogBehind: Stale | null;
  /** Opened when first asked for. */
  sources(): LogReader;
  close(): void;
}

/** @throws usage-no-archive, archive-unreadable, catalog-missing, catalog-version, catalog-damaged */
export function openReader({
  globals,
  surroundings,
  report,
}: Pick<EngineContext, 'globals' | 'surroundings' | 'report'>): Reader {
  const dataDir = locateDataDir(globals, surroundings);
  report({ event: 'archive-located', dataDir });
  requireArchive(dataDir);
  const catalog = openCatalogReader(dataDir);
  const catalogBehind = staleCatalog(dataDir, () => catalog.reached().number);
  if (catalogBehind !== null) report({ event: 'catalog-behind', dataDir, ...catalogBehind });
  let sources: LogReader | undefined;
  return {
    dataDir,
    catalog,
    catalogBehind,
    sources() {
      sources ??= openLogReader({ dir: dataDir, locator: catalog.locator });
      return sources;
    },
    close() {
      sources?.close();
      catalog.close();
    },
  };
}
