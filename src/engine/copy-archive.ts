import { existsSync, lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { FOLDER_MODE, formatPath, logFolder, temporaryPath } from '../archive/format/layout.ts';
import { isUnused } from '../archive/read/format-file.ts';
import { holderPath } from '../archive/write/lock.ts';
import { reachedBy } from '../catalog/closed-catalog.ts';
import { catalogFile } from '../catalog/open.ts';
import { type Copied, copyLog } from '../copy/copy-log.ts';
import { isWithin, makeFoldersDurably } from '../disk/make-folders.ts';
import { errnoName } from '../errors/mailkeep-error.ts';
import { copyError } from '../errors/small-families.ts';
import { usageError } from '../errors/usage.ts';
import type { FoldProgress } from '../indexer/fold-log.ts';
import type { IndexingProgress } from '../indexer/indexer.ts';
import { dropAsides } from '../retention/carry-out.ts';
import { withLock } from './archive/archive-folder.ts';
import { removeCatalogs, updateCatalog } from './archive/catalog-of-copy.ts';
import { rebuild } from './rebuild.ts';

/** What became of the catalog next to a copied log. */
export type CatalogThere = 'rebuilt' | 'updated' | 'none' | 'removed' | 'as it was';

export interface CopyOrder {
  /** The archive's folder and that of the copy; absolute. */
  readonly from: string;
  readonly to: string;
  /** Rebuilds the copy's catalog, where it is otherwise updated if it is there. */
  readonly rebuild: boolean;
  readonly signal: AbortSignal;
  readonly onCopy: (progress: { readonly segments: number; readonly of: number }) => void;
  readonly onFold: (progress: FoldProgress) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

/**
 * Brings a copy of an archive up to date, verifying every byte on the way, or makes one.
 *
 * @throws copy-onto-itself, copy-elsewhere, copy-linked, copy-other-archive, copy-ahead, copy-diverged, archive-in-use,
 *   usage-save-failed for a folder that cannot be made
 */
export async function copyArchive(
  order: CopyOrder,
): Promise<Copied & { readonly catalog: CatalogThere }> {
  const { from, to, signal, onCopy, onFold, onIndex } = order;
  if (isWithin(to, from)) throw copyError('copy-onto-itself', { to });
  try {
    makeFoldersDurably(to, FOLDER_MODE);
  } catch (error) {
    throw usageError('usage-save-failed', { file: to, reason: errnoName(error) });
  }
  refuseElsewhere(to);
  const log = logFolder(to);
  if (lstatSync(log, { throwIfNoEntry: false })?.isSymbolicLink() === true) {
    throw copyError('copy-linked', { file: log });
  }
  return withLock(to, async () => {
    let forgotten = false;
    const copied = await copyLog({
      from,
      to,
      signal,
      seen: reachedBy(from)?.number ?? 0,
      progress: onCopy,
      forget: async () => {
        forgotten = (await removeCatalogs(to)) || forgotten;
        await dropAsides(realFiles, to);
      },
    });
    if (!order.rebuild) return { ...copied, catalog: await catalogThere(to, forgotten, signal) };
    await rebuild({ dir: to, signal, onFold, onIndex });
    return { ...copied, catalog: 'rebuilt' };
  });
}

/** What a copy that was killed in its first moments leaves, and what a file system puts into every disk. */
const NO_STRANGERS = new Set([
  'lock',
  // SQLite has one while the lock is held.
  'lock-journal',
  path.basename(holderPath('.')),
  path.basename(logFolder('.')),
  path.basename(temporaryPath(formatPath('.'))),
  'lost+found',
]);

/** An archive among the files of something else would be taken for a part of that, and removed with it. */
function refuseElsewhere(to: string): void {
  if (!isUnused(realFiles, to)) return;
  const stranger = readdirSync(to).find((name) => !NO_STRANGERS.has(name));
  if (stranger !== undefined) throw copyError('copy-elsewhere', { to, stranger });
}

async function catalogThere(
  dir: string,
  forgotten: boolean,
  signal: AbortSignal,
): Promise<CatalogThere> {
  if (existsSync(catalogFile(dir))) return updateCatalog(dir, signal);
  return forgotten ? 'removed' : 'none';
}
