import { renameSync, rmSync } from 'node:fs';
import { openLogReader } from '../archive/log-reader.ts';
import type { LogDamage } from '../archive/scan-log.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { openCatalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/open.ts';
import { rebuildInterrupted } from '../errors/indexer.ts';
import type { MessageId } from '../mail/words.ts';
import type { Extractor } from '../mime/extraction.ts';
import type { FoldProgress } from './fold-log.ts';
import { foldLog } from './fold-log.ts';
import type { IndexingProgress } from './index-pending.ts';
import { createIndexer } from './indexer.ts';

export interface RebuildOptions {
  /** The data directory; the caller holds its lock and has closed its catalog. */
  readonly dir: string;
  readonly extractor: Extractor;
  readonly signal: AbortSignal;
  readonly onFold?: (progress: FoldProgress) => void;
  readonly onIndex?: (progress: IndexingProgress) => void;
}

export interface RebuildResult extends FoldProgress {
  readonly indexed: number;
  readonly unparsed: number;
  /** Places of the log that are damaged; what stood there is missing from the catalog. */
  readonly damage: readonly LogDamage[];
  /** Messages whose bytes are damaged. */
  readonly damagedMessages: readonly MessageId[];
}

/**
 * Makes the catalog anew from the log, texts included, beside the old one, and puts it in its place when it is
 * whole. Works with a damaged log, of which it folds what can be read.
 *
 * @throws `rebuild-interrupted` when aborted: then, as after any error, the old catalog is as it was
 */
export async function rebuildCatalog(options: RebuildOptions): Promise<RebuildResult> {
  const { dir, signal } = options;
  const file = catalogFile(dir);
  const fresh = `${file}.rebuild`;
  removeDatabase(fresh);
  const catalog = await openCatalog(dir, fresh);
  let result: RebuildResult;
  try {
    result = await fill(catalog, options);
    if (signal.aborted) throw rebuildInterrupted(result.commits);
    catalog.checkpoint();
  } catch (error) {
    catalog.close();
    removeDatabase(fresh);
    throw error;
  }
  catalog.close();
  // The database goes before its write-ahead log: SQLite drops a log without a database, but would replay one
  // that lies beside a database it does not belong to. A crash in here leaves no catalog, which opening makes
  // anew from the log.
  removeDatabase(file);
  renameSync(fresh, file);
  return result;
}

async function fill(catalog: WritableCatalog, options: RebuildOptions): Promise<RebuildResult> {
  const { dir, extractor, signal, onFold, onIndex } = options;
  const damage: LogDamage[] = [];
  const folded = await foldLog({
    dir,
    target: catalog,
    signal,
    onDamage: (place) => damage.push(place),
    ...(onFold === undefined ? {} : { progress: onFold }),
  });
  const sources = openLogReader({ dir, locator: catalog.locator });
  try {
    const indexer = createIndexer({
      store: catalog.index,
      sources,
      extractor,
      ...(onIndex === undefined ? {} : { progress: onIndex }),
    });
    await indexer.all(signal);
    const { indexed, unparsed, damaged } = indexer.totals();
    return { ...folded, indexed, unparsed, damage, damagedMessages: damaged };
  } finally {
    sources.close();
  }
}

function removeDatabase(file: string): void {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
}
