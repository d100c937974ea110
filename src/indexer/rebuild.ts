import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { openLogReader } from '../archive/read/log-reader.ts';
import type { LogDamage } from '../archive/read/scan-log.ts';
import type { AttachmentExtractor } from '../attachments/attachment-text.ts';
import { openCatalog, type WritableCatalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/open.ts';
import { catalogError } from '../errors/catalog.ts';
import { rebuildInterrupted } from '../errors/indexer.ts';
import { errnoName } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import type { Extractor } from '../mime/extractor.ts';
import { readAttachments } from './attachment-texts.ts';
import { type FoldProgress, foldLog } from './fold-log.ts';
import { IndexAhead } from './index-ahead.ts';
import { createIndexer, type IndexingProgress } from './indexer.ts';

export interface RebuildOptions {
  /** The data directory; the caller holds its lock and has closed its catalog. */
  readonly dir: string;
  readonly extractor: Extractor;
  /** Without it the text of attachments waits for the next pass. */
  readonly attachments?: AttachmentExtractor;
  readonly signal: AbortSignal;
  /** The highest commit number that the old catalog has seen: errors up to it are damage of the log. */
  readonly seen?: number | undefined;
  /** The old catalog is kept under this name: it may know what a damaged log has lost. */
  readonly keepAs?: string | undefined;
  readonly onFold?: (progress: FoldProgress) => void;
  readonly onIndex?: (progress: IndexingProgress) => void;
  /** Called once all messages can be found, before the text of attachments is read. */
  readonly onSearchable?: () => void;
}

export interface RebuildResult extends FoldProgress {
  readonly indexed: number;
  readonly unparsed: number;
  /** Distinct attachments whose text was read, or was found not to be readable. */
  readonly attachments: number;
  /** Places of the log that are damaged; what stood there is missing from the catalog. */
  readonly damage: readonly LogDamage[];
  /** Messages whose bytes are damaged. */
  readonly damagedMessages: readonly MessageId[];
  /** Why the old catalog could not be copied to `keepAs`, an errno or `not a file`: then it was moved there as it is. */
  readonly unread: string | null;
}

/**
 * Rebuilds the catalog from the log, texts included, in a file next to the old one, and replaces the old one when it
 * is complete. Works with a damaged log, of which it folds what can be read.
 *
 * @throws `rebuild-interrupted` when aborted, `catalog-disk-full`, `catalog-io`: then, as after any error, the old catalog
 *   is as it was, or where it was to be kept
 */
export async function rebuildCatalog(options: RebuildOptions): Promise<RebuildResult> {
  const { dir, signal } = options;
  const file = catalogFile(dir);
  const fresh = `${file}.rebuild`;
  removeDatabase(fresh);
  let catalog: WritableCatalog | undefined;
  let result: Omit<RebuildResult, 'unread'>;
  let unread: string | null = null;
  try {
    catalog = await openCatalog(dir, fresh);
    try {
      result = await fill(catalog, options, true);
    } catch (error) {
      if (!(error instanceof IndexedBeforePurge)) throw error;
      catalog.close();
      removeDatabase(fresh);
      catalog = await openCatalog(dir, fresh);
      result = await fill(catalog, options, false);
    }
    if (signal.aborted) throw rebuildInterrupted(result.commits);
    catalog.checkpoint();
    if (options.keepAs !== undefined && existsSync(file)) {
      unread = keepDatabase(file, options.keepAs);
      await realFiles.syncFolder(dirname(options.keepAs));
    }
  } catch (error) {
    catalog?.close();
    removeDatabase(fresh);
    throw error;
  }
  catalog.close();
  await swap(fresh, file);
  return { ...result, unread };
}

/** The log purges a message that the new catalog has indexed already. */
class IndexedBeforePurge extends Error {}

/** Records folded at a time, about: two batches of a first sync, which take less time than workers have messages for. */
const RECORDS_AHEAD = 500;

/**
 * Fills a new catalog.
 *
 * @param early index messages while the rest of the log is folded
 * @throws IndexedBeforePurge when `early` and the log purges one of them, whose text must not get into the new file
 */
async function fill(
  catalog: WritableCatalog,
  options: RebuildOptions,
  early: boolean,
): Promise<Omit<RebuildResult, 'unread'>> {
  const { dir, extractor, signal, onIndex } = options;
  const { index: store, messages } = catalog;
  const sources = openLogReader({ dir, locator: catalog.locator });
  const ahead = early ? new IndexAhead({ store, messages, sources, extractor, signal }) : undefined;
  try {
    const damage: LogDamage[] = [];
    const folded = await foldLog({
      dir,
      target: catalog,
      seen: options.seen,
      signal,
      onDamage: (place) => damage.push(place),
      progress: options.onFold,
      ...(ahead !== undefined && {
        records: RECORDS_AHEAD,
        folding: (batches) => {
          if (ahead.isUndoneBy(batches)) throw new IndexedBeforePurge();
        },
        folded: () => ahead.feed(),
        inflated: (path, offset, block) => sources.keepBlock(path, offset, block),
      }),
    });
    await ahead?.finish();
    const indexer = createIndexer({ store, sources, extractor, progress: onIndex });
    await indexer.all(signal);
    // Before attachments: a message that is indexed again with their text is one message all the same.
    const { messages: known, pending, unparsed } = catalog.totals();
    const { damaged } = indexer.totals();
    options.onSearchable?.();
    const { read } =
      options.attachments === undefined
        ? { read: 0 }
        : await readAttachments({
            store: catalog.attachments,
            sources,
            extractor: options.attachments,
            index: (until) => indexer.all(until),
            makeRoom: () => extractor.rest(),
            signal,
          });
    const indexed = known - pending;
    return { ...folded, indexed, unparsed, attachments: read, damage, damagedMessages: damaged };
  } finally {
    ahead?.cancel();
    sources.close();
  }
}

/**
 * Replaces the old database with the new one. Where the old one has no write-ahead log, as after every orderly exit,
 * one rename does it, and a catalog exists at any moment. Otherwise the database is removed before its log: SQLite
 * drops a log without a database, but would replay one that lies next to a database it does not belong to. A crash
 * in between leaves no catalog, and opening then rebuilds it from the log.
 */
async function swap(fresh: string, file: string): Promise<void> {
  const log = `${file}-wal`;
  const logged = existsSync(log) && statSync(log).size > 0;
  if (logged) removeDatabase(file);
  moved(fresh, file);
  for (const name of [log, `${file}-shm`]) rmSync(name, { force: true });
  await realFiles.syncFolder(dirname(file));
}

/**
 * Keeps the old catalog under a new name, durably, before it is replaced: only it may know what the log has lost. A
 * file that cannot be copied, for instance because the disk cannot read it, is moved with whatever is left of it.
 *
 * @returns why it was moved, an errno or `not a file`; null for a copy
 */
function keepDatabase(file: string, to: string): string | null {
  // In this order: see `swap`.
  const suffixes = ['', '-wal'].filter((suffix) => existsSync(`${file}${suffix}`));
  const move = (): void => {
    for (const suffix of suffixes) moved(`${file}${suffix}`, `${to}${suffix}`);
  };
  // Copying a pipe would wait for its other end for ever.
  if (!statSync(file).isFile()) {
    move();
    return 'not a file';
  }
  try {
    for (const suffix of suffixes) copyDurably(`${file}${suffix}`, `${to}${suffix}`);
    return null;
  } catch (error) {
    removeDatabase(to);
    const errno = errnoName(error);
    if (errno === 'ENOSPC' || errno === 'EDQUOT') {
      throw catalogError('catalog-disk-full', { file: to }, error);
    }
    move();
    return errno;
  }
}

function moved(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    throw catalogError('catalog-io', { file: to, reason: errnoName(error) }, error);
  }
}

function copyDurably(from: string, to: string): void {
  copyFileSync(from, to);
  const copy = openSync(to, 'r+');
  try {
    fsyncSync(copy);
  } finally {
    closeSync(copy);
  }
}

function removeDatabase(file: string): void {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
}
