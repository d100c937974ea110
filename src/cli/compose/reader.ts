import { existsSync } from 'node:fs';
import { formatPath } from '../../archive/layout.ts';
import { type LogReader, openLogReader } from '../../archive/log-reader.ts';
import { type Catalog, openCatalogReader } from '../../catalog/catalog.ts';
import { locateDataDir } from '../../config/data-dir.ts';
import { usageError } from '../../errors/usage.ts';
import type { CommandContext } from '../context.ts';

/** The archive as those have it who only read: beside a writer or without one, without configuration or network. */
export interface Reader {
  readonly dataDir: string;
  readonly catalog: Catalog;
  /** Opened when first asked for. */
  sources(): LogReader;
  close(): void;
}

/** @throws usage-no-archive, catalog-missing, catalog-version, catalog-damaged */
export function openReader({ globals, surroundings }: CommandContext): Reader {
  const dataDir = locateDataDir(globals, surroundings);
  if (!existsSync(formatPath(dataDir))) throw usageError('usage-no-archive', { dataDir });
  const catalog = openCatalogReader(dataDir);
  let sources: LogReader | undefined;
  return {
    dataDir,
    catalog,
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
