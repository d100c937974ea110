import { existsSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { realFiles } from '../../archive/files/real-files.ts';
import { openLogReader } from '../../archive/read/log-reader.ts';
import { openCatalog, type WritableCatalog } from '../../catalog/catalog.ts';
import { catalogFile } from '../../catalog/open.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { readAttachments } from '../../indexer/attachment-texts.ts';
import { catchUp } from '../../indexer/fold-log.ts';
import { createIndexer } from '../../indexer/indexer.ts';
import { withExtractors } from '../rebuild.ts';

/**
 * Removes the catalog of a folder for good, with its write-ahead log, unfinished rebuilds, and those that repairs put
 * aside: all of them have the text of messages. True when there was one. The caller holds the folder's lock.
 */
export async function removeCatalogs(dataDir: string): Promise<boolean> {
  const file = catalogFile(dataDir);
  const folder = dirname(file);
  if (!existsSync(folder)) return false;
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  // The database before its log: SQLite would replay a log that is left next to another database.
  for (const name of names.sort()) rmSync(join(folder, name), { force: true });
  if (names.length > 0) await realFiles.syncFolder(folder);
  return names.length > 0;
}

/**
 * Brings the catalog of a copy to the copy's last commit, texts included. One that cannot be brought there is removed:
 * a search in it would find old mail only, without an error. The caller holds the copy's lock.
 *
 * @throws `catalog-disk-full`, `catalog-io`, `catalog-busy`: the catalog is behind then, and the next copy continues
 */
export async function updateCatalog(
  dir: string,
  signal: AbortSignal,
): Promise<'updated' | 'as it was' | 'removed'> {
  let catalog: WritableCatalog | undefined;
  try {
    catalog = await openCatalog(dir);
    const { commits } = await catchUp({ dir, target: catalog, signal });
    if (commits === 0 && catalog.totals().pending === 0) return 'as it was';
    await makeSearchable(catalog, dir, signal);
    return 'updated';
  } catch (error) {
    if (!(error instanceof MailkeepError) || !isOfNoUse(error)) throw error;
    catalog?.close();
    catalog = undefined;
    await removeCatalogs(dir);
    return 'removed';
  } finally {
    catalog?.close();
  }
}

/** Returns whether an error says that a catalog is of another version, damaged, or does not belong to the log. */
export function isOfNoUse({ family, code }: MailkeepError): boolean {
  return family === 'damage' || code === 'catalog-version';
}

async function makeSearchable(
  catalog: WritableCatalog,
  dir: string,
  signal: AbortSignal,
): Promise<void> {
  const sources = openLogReader({ dir, locator: catalog.locator });
  try {
    await withExtractors(async (extractor, attachments) => {
      const indexer = createIndexer({ store: catalog.index, sources, extractor });
      await indexer.all(signal);
      await readAttachments({
        store: catalog.attachments,
        sources,
        extractor: attachments,
        index: (until) => indexer.all(until),
        makeRoom: () => extractor.rest(),
        signal,
      });
    });
  } finally {
    sources.close();
  }
}
