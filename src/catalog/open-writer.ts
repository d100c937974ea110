import { existsSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path, { basename, dirname, join } from 'node:path';
import { realFiles, refuseNetworkFileSystem } from '../archive/file-system.ts';
import { FOLDER_MODE } from '../archive/format.ts';
import { acquireLock } from '../archive/lock.ts';
import { type LogReader, openLogReader } from '../archive/log-reader.ts';
import { LogThread } from '../archive/log-thread.ts';
import { type LogWriter, openLogWriter } from '../archive/log-writer.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from '../archive/payload.ts';
import {
  dropOldGenerations,
  type Sealer,
  sealClosedSegments,
  sealerOnThread,
} from '../archive/seal.ts';
import { locateCodec } from '../core/config-locate.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import { openState, type StateFile } from '../core/state.ts';
import { openAttachmentExtractor } from '../mail/attachment-extractor.ts';
import type { Extractor } from '../mail/extraction.ts';
import { openCatalog, type WritableCatalog } from './catalog.ts';
import { catalogFile } from './database.ts';
import { readCatalogHead } from './implied.ts';
import { createIndexer, type Indexer, readAttachments } from './indexer.ts';
import type { EngineContext } from './open-reader.ts';
import { catchUp, rebuildWithExtractors, withExtractors } from './rebuild.ts';

/** The archive, opened by its only writer. Always close it, to release the lock. */
export interface Writer {
  readonly dataDir: string;
  readonly log: LogWriter;
  readonly sources: LogReader;
  readonly catalog: WritableCatalog;
  readonly state: StateFile;
  readonly codec: ArchiveCodec;
  /** Rewrites segments on a thread that starts on demand, even after being closed. */
  readonly sealer: Sealer;
  /** Directory for large sources that are not in the log yet. */
  readonly spoolDir: string;
  close(): Promise<void>;
}

/**
 * Takes the lock, opens the log, catalog and state, and updates the catalog from the log.
 *
 * @param configuredCodec `archive.codec` from a configuration that has already been loaded
 * @throws network-file-system, archive-in-use, and errors from `locateCodec`; family `damage` if the log is damaged
 * (nothing has been changed)
 */
export async function openWriter(
  context: Pick<EngineContext, 'globals' | 'environment' | 'signal' | 'now' | 'report'>,
  dataDir: string,
  configuredCodec?: ArchiveCodec,
): Promise<Writer> {
  const closers: (() => void | Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const { globals, environment, report } = context;
    const codec = configuredCodec ?? locateCodec(globals, environment) ?? DEFAULT_CODEC;
    refuseNetworkFileSystem(dataDir, environment.env);
    const lock = acquireLock(dataDir);
    closers.push(() => lock.release());
    const spoolDir = path.join(dataDir, 'tmp');
    rmSync(spoolDir, { recursive: true, force: true });
    makeFolders(spoolDir, FOLDER_MODE);
    const catalog = await openCurrentCatalog(dataDir, context);
    closers.push(() => catalog.close());
    const log = await openLogWriter({
      dir: dataDir,
      now: context.now,
      expected: catalog.reached(),
      // With one core, a thread would only add work.
      ...(availableParallelism() > 1 && { startThread: () => new LogThread() }),
      onTail: ({ file, bytes }) => report({ event: 'tail-put-aside', file, bytes }),
    });
    closers.push(() => log.close());
    const { signal } = context;
    const { commits } = await catchUp({ dir: dataDir, target: catalog, signal });
    if (commits > 0) report({ event: 'catalog-caught-up', commits });
    const state = openState(dataDir, (file) => report({ event: 'state-put-aside', file }));
    closers.push(() => state.close());
    const sealer = sealerOnThread();
    closers.push(() => sealer.close());
    const sources = openLogReader({ dir: dataDir, locator: catalog.locator });
    closers.push(() => sources.close());
    const stores = { log, sources, catalog, state };
    return { dataDir, ...stores, codec, sealer, spoolDir, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Opens a catalog for writing. A catalog from an earlier version is first rebuilt from the log, which must be intact
 * and contain the catalog's last commit. The caller holds the archive's lock.
 *
 * @throws errors from `openCatalog`; `log-damaged` and `rebuild-interrupted`, which leave the old catalog unchanged
 */
async function openCurrentCatalog(
  dir: string,
  { signal, report }: Pick<EngineContext, 'signal' | 'report'>,
): Promise<WritableCatalog> {
  try {
    return await openCatalog(dir);
  } catch (error) {
    if (!hasCode(error, 'catalog-version') || error.facts.remedy !== 'write') throw error;
    report({ event: 'rebuilding-catalog', because: 'version' });
    await rebuildWithExtractors({
      dir,
      signal,
      expected: readCatalogHead(dir),
      wholeLogOnly: true,
    });
    return await openCatalog(dir);
  }
}

export type AttachmentReading = ReturnType<typeof attachmentReading>;

/**
 * Reads attachment text once all messages are searchable: at the end of a sync run, or while the writer is idle. Its
 * thread starts on demand.
 */
export function attachmentReading(
  { catalog, sources }: Pick<Writer, 'catalog' | 'sources'>,
  indexer: Pick<Indexer, 'all'>,
  messages: Pick<Extractor, 'rest'>,
) {
  const extractor = openAttachmentExtractor();
  return {
    /** Runs for `forMs` milliseconds, then finishes the current attachment. Returns the number of attachments left. */
    async read(order: { signal: AbortSignal; forMs: number; now: () => number }): Promise<number> {
      const { signal, forMs, now } = order;
      const until = now() + forMs;
      const { remaining } = await readAttachments({
        store: catalog.attachments,
        sources,
        extractor,
        index: (stopped) => indexer.all(stopped),
        makeRoom: () => messages.rest(),
        signal,
        // Normal mail that follows slow attachments still gets its full time.
        goOn: (lostMs) => now() < until + lostMs,
      });
      return remaining;
    },
    close: () => extractor.close(),
  };
}

/** Minimum size for a segment to be sealed at the end of a sync run. A quiet day's mail is smaller. */
const WORTH_SEALING_BYTES = 8 * 1024 * 1024;

/**
 * Seals closed segments, deletes the files that they replace, and closes the gaps that a first sync leaves in the
 * catalog. Keeping both versions would double the disk space that a first sync needs, and immediate deletion is safe:
 * the sealed file was read back and verified, and a reader keeps its open file or finds the new one.
 *
 * Returns the damage found. A damaged segment is left unchanged.
 */
export async function tidyArchive(
  writer: Writer,
  startedAtCommit: number,
  now: () => number,
  signal: AbortSignal,
): Promise<readonly MailkeepError[]> {
  const { dataDir, log, sources, catalog, codec, sealer } = writer;
  await log.rollIfLarger(WORTH_SEALING_BYTES);
  const { sealed, damaged } = await sealClosedSegments({
    dir: dataDir,
    before: log.segment,
    codec,
    sealer,
    signal,
  }).finally(() => sealer.close());
  const dropped = await dropOldGenerations({ dir: dataDir, now: now(), keepMs: 0 });
  if (sealed.length + dropped.length > 0) sources.refresh();
  if (startedAtCommit > 0 || signal.aborted) return damaged;
  try {
    catalog.compact();
  } catch (error) {
    // A reader is active. New mail will fill the gaps.
    if (!hasCode(error, 'catalog-busy')) throw error;
  }
  return damaged;
}

/**
 * Deletes a directory's catalog with its write-ahead log, unfinished rebuilds, and catalogs kept by repairs, because
 * all contain message text. Reports whether there was one. The caller holds the directory's lock.
 */
export async function removeCatalogs(dataDir: string): Promise<boolean> {
  const file = catalogFile(dataDir);
  const folder = dirname(file);
  if (!existsSync(folder)) return false;
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  // Delete the database before its log, which SQLite would replay into another database.
  for (const name of names.sort()) rmSync(join(folder, name), { force: true });
  if (names.length > 0) await realFiles.syncFolder(folder);
  return names.length > 0;
}

/**
 * Updates a copy's catalog to the copy's last commit, including text. Deletes a catalog that cannot be updated, because
 * its searches would silently miss new mail. The caller holds the copy's lock.
 *
 * @throws `catalog-disk-full`, `catalog-io`, `catalog-busy`: the catalog is left out of date, and the next copy resumes
 * the update
 */
export async function updateCatalog(
  dir: string,
  signal: AbortSignal,
): Promise<'updated' | 'as it was' | 'removed'> {
  let catalog: WritableCatalog | undefined;
  let isRebuilt = false;
  const report = (): void => {
    isRebuilt = true;
  };
  try {
    catalog = await openCurrentCatalog(dir, { signal, report });
    const { commits } = await catchUp({ dir, target: catalog, signal });
    if (!isRebuilt && commits === 0 && catalog.totals().pending === 0) return 'as it was';
    await makeSearchable(catalog, dir, signal);
    return 'updated';
  } catch (error) {
    if (!(error instanceof MailkeepError) || !isUnusableCatalog(error)) throw error;
    catalog?.close();
    catalog = undefined;
    await removeCatalogs(dir);
    return 'removed';
  } finally {
    catalog?.close();
  }
}

/** Reports whether the catalog has a different version, is damaged, or belongs to another log. */
function isUnusableCatalog({ family, code }: MailkeepError): boolean {
  return family === 'damage' || code === 'catalog-version';
}

/** Indexes all messages that are not searchable yet, and the text of their attachments. */
export async function makeSearchable(
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
