import { existsSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { realFiles } from '../../archive/files/real-files.ts';
import { catalogFile } from '../../catalog/open.ts';

/**
 * Removes the catalog of a folder for good, with its write-ahead log, unfinished rebuilds, and those that repairs put
 * aside: all of them have the text of messages. True when there was one. The caller holds the folder's lock.
 */
export async function removeCatalogs(dataDir: string): Promise<boolean> {
  const file = catalogFile(dataDir);
  const folder = dirname(file);
  if (!existsSync(folder)) return false;
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  // The database before its log: SQLite would replay a log that is left beside another database.
  for (const name of names.sort()) rmSync(join(folder, name), { force: true });
  if (names.length > 0) await realFiles.syncFolder(folder);
  return names.length > 0;
}
