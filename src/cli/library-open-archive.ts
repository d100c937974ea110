import type { Archive } from './library.ts';

/**
 * Opens an archive for reading. What this needs is loaded now, so that programs which import only the clients do not
 * load a database.
 *
 * @param dataDir the archive's folder
 * @throws MailkeepError: argument-invalid, usage-no-archive, archive-unreadable, catalog-missing, catalog-version,
 *   catalog-damaged
 */
export async function openArchive(dataDir: string): Promise<Archive> {
  const { ReadOnlyArchive } = await import('./library-read-only.ts');
  return ReadOnlyArchive.open(dataDir);
}
