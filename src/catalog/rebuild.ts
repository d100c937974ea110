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
import { archiveError } from '../archive/errors.ts';
import { realFiles } from '../archive/file-system.ts';
import { type CommittedBatch, removedMessage } from '../archive/format.ts';
import { type LogDamage, openLogReader, type ScanOptions, scanLog } from '../archive/log-reader.ts';
import type { ExpectedCommit } from '../archive/recovery.ts';
import { catalogError } from '../core/error-tables.ts';
import { errnoName, type MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import { openAttachmentExtractor } from '../mail/attachment-extractor.ts';
import type { AttachmentExtractor } from '../mail/attachment-text.ts';
import type { Extractor } from '../mail/extraction.ts';
import { openExtractorPool } from '../mail/mime-threads.ts';
import { type Catalog, openCatalog, type WritableCatalog } from './catalog.ts';
import { catalogFile, rebuildFile } from './database.ts';
import { rebuildError } from './errors.ts';
import {
  BULK_MESSAGES,
  createIndexer,
  type IndexingProgress,
  IndexingRound,
  type RoundOptions,
  readAttachments,
} from './indexer.ts';
import type { FreshMessage, IndexWriter, LogPosition } from './indexing.ts';

export interface FoldProgress {
  readonly commits: number;
  readonly messages: number;
}

interface FoldLogOptions {
  readonly dir: string;
  readonly target: Pick<WritableCatalog, 'foldBatches'> & {
    reached(): Pick<ReturnType<WritableCatalog['reached']>, 'number' | 'hash'>;
  };
  /**
   * A commit that the log must contain. Errors before it, a different commit in its place or an earlier end are damage.
   */
  readonly expected?: ExpectedCommit | undefined;
  readonly signal: AbortSignal;
  readonly progress?: ((progress: FoldProgress) => void) | undefined;
  /** Number of records after which a transaction takes no more batches. */
  readonly records?: number | undefined;
  readonly folding?: ((batches: readonly CommittedBatch[]) => void) | undefined;
  /** Called after each transaction and awaited before the next one. */
  readonly folded?: (() => Promise<void>) | undefined;
  readonly inflated?: ScanOptions['inflated'];
  /** Called for each damaged part. If it throws, folding stops at that part. */
  readonly onDamage: (damage: LogDamage) => void;
}

const BATCHES = 64;
const RECORDS = 20_000;

/**
 * Folds the log into a catalog, starting after the catalog's last commit. On abort, stops between two transactions.
 * Reports damage, and folds later batches as far as they are readable.
 */
async function foldLog(options: FoldLogOptions): Promise<FoldProgress> {
  const { dir, target, expected, signal, progress, folding, folded, inflated, onDamage } = options;
  const { number, hash } = target.reached();
  const seen = expected?.number;
  const limit = options.records ?? RECORDS;
  let commits = 0;
  let messages = 0;
  let records = 0;
  let damaged = false;
  /** The position reached, and whether damage follows it. */
  let end = { segment: 0, number: 0, isDamaged: false };
  let batches: CommittedBatch[] = [];
  const flush = async () => {
    if (batches.length === 0) return;
    folding?.(batches);
    target.foldBatches(batches, { acrossGap: damaged });
    commits += batches.length;
    batches = [];
    records = 0;
    progress?.({ commits, messages });
    await folded?.();
  };
  for await (const event of scanLog({ dir, after: { number, hash }, seen, inflated })) {
    if (signal.aborted) break;
    if (event.what === 'damage') {
      await flush();
      damaged = true;
      end = { ...end, isDamaged: true };
      onDamage(event.damage);
    } else if (event.what === 'batch') {
      const { commit, records: all } = event.batch;
      const segment = all.at(-1)?.position.segment ?? end.segment;
      if (commit.number === seen && commit.hash !== expected?.hash)
        onDamage({ file: dir, segment, offset: 0, end: 0, reason: 'diverged' });
      end = { segment, number: commit.number, isDamaged: false };
      batches.push(event.batch);
      records += event.batch.records.length;
      for (const record of event.batch.records) if (record.kind === 'message') messages++;
      if (batches.length >= BATCHES || records >= limit) await flush();
    }
  }
  await flush();
  if (!signal.aborted && seen !== undefined && end.number < seen && !end.isDamaged)
    onDamage({ file: dir, segment: end.segment, offset: 0, end: 0, reason: 'ends-early' });
  return { commits, messages };
}

/**
 * Folds commits missing from the catalog, for example after a crash between a commit and its fold. The writer calls
 * this on opening.
 *
 * @throws `log-damaged` at the first damage, without folding later batches; use `rebuild` instead. A log that ends
 * before the catalog's commit, or has a different one in its place, is also damaged.
 */
export async function catchUp(options: Omit<FoldLogOptions, 'onDamage'>): Promise<FoldProgress> {
  return await foldLog({
    ...options,
    onDamage: (damage) => {
      throw damagedAt(damage);
    },
  });
}

function damagedAt({ file, segment, offset, reason }: LogDamage): MailkeepError {
  return archiveError('log-damaged', { file, segment, offset, reason });
}

interface IndexAheadOptions extends Omit<RoundOptions, 'leaveDamaged'> {
  readonly store: Pick<IndexWriter, 'fresh' | 'index' | 'mode'>;
  readonly messages: Pick<Catalog['messages'], 'docidOf'>;
}

/**
 * Indexes messages in log order during the fold, so that workers extract them while their blocks are in memory. An
 * ordinary round then indexes the rest: messages due for reindexing, and damaged ones, which a later record may repair.
 */
class IndexAhead {
  readonly #round: IndexingRound;
  #bulk = false;
  #last: LogPosition = { segment: 0, ordinal: 0 };

  constructor(private readonly options: IndexAheadOptions) {
    this.#round = new IndexingRound({ ...options, leaveDamaged: true }, ({ indexed }) => {
      if (this.#bulk || indexed < BULK_MESSAGES) return;
      this.#bulk = true;
      options.store.mode('bulk');
    });
  }

  /**
   * Reports whether these batches purge an indexed message. Removing its terms would leave their bytes in the file. The
   * log contains such a message only after an interrupted purge.
   */
  isUndoneBy(batches: readonly CommittedBatch[]): boolean {
    return batches.some(({ records }) =>
      records.some(
        (record) =>
          record.kind === 'fact' &&
          record.fact.fact === 'purged' &&
          record.fact.again !== true &&
          this.options.messages.docidOf(removedMessage(record.fact)) !== undefined,
      ),
    );
  }

  async feed(): Promise<void> {
    await this.#round.feed(this.#fresh());
  }

  async finish(): Promise<void> {
    await this.#round.finish();
    if (this.#bulk) this.options.store.mode('steady');
  }

  cancel(): void {
    this.#round.cancel();
  }

  *#fresh(): Iterable<FreshMessage> {
    for (const message of this.options.store.fresh(this.#last)) {
      this.#last = message.position;
      yield message;
    }
  }
}

interface RebuildOptions {
  /** The data directory. The caller holds its lock and has closed its catalog. */
  readonly dir: string;
  readonly extractor: Extractor;
  /** If omitted, attachment text is left for the next sync run. */
  readonly attachments?: AttachmentExtractor;
  readonly signal: AbortSignal;
  /** The last commit of the old catalog. Errors before it and an earlier end of the log are treated as damage. */
  readonly expected?: ExpectedCommit | undefined;
  /** Stops at the first damage instead of folding later batches. */
  readonly wholeLogOnly?: boolean | undefined;
  /** Keeps the old catalog under this name, since it can contain data that a damaged log has lost. */
  readonly keepAs?: string | undefined;
  readonly onFold?: (progress: FoldProgress) => void;
  readonly onIndex?: (progress: IndexingProgress) => void;
  /** Called once all messages are searchable, before attachments are read. */
  readonly onSearchable?: () => void;
}

export interface RebuildResult extends FoldProgress {
  readonly indexed: number;
  readonly unparsed: number;
  /** Distinct attachments that were read or found to be unreadable. */
  readonly attachments: number;
  /** Damaged parts of the log. The catalog lacks their records. */
  readonly damage: readonly LogDamage[];
  readonly damagedMessages: readonly MessageId[];
  /** Why the old catalog was moved to `keepAs` rather than copied: an errno or `not a file`. */
  readonly unread: string | null;
}

/**
 * Rebuilds the catalog from the log, including text, in a new file that replaces the old one when it is complete. Folds
 * the readable parts of a damaged log.
 *
 * @throws `rebuild-interrupted` on abort, `catalog-disk-full`, `catalog-io`, with `wholeLogOnly` also `log-damaged`.
 * After any error, the old catalog is unchanged, or at `keepAs`.
 */
export async function rebuildCatalog(options: RebuildOptions): Promise<RebuildResult> {
  const { dir, signal } = options;
  const file = catalogFile(dir);
  const newFile = rebuildFile(dir);
  removeDatabase(newFile);
  let catalog: WritableCatalog | undefined;
  let result: Omit<RebuildResult, 'unread'>;
  let unread: string | null = null;
  try {
    catalog = await openCatalog(dir, newFile);
    try {
      result = await fill(catalog, options, true);
    } catch (error) {
      if (!(error instanceof IndexedBeforePurge)) throw error;
      catalog.close();
      removeDatabase(newFile);
      catalog = await openCatalog(dir, newFile);
      result = await fill(catalog, options, false);
    }
    if (signal.aborted) throw rebuildError('rebuild-interrupted', { commits: result.commits });
    // A reader checking progress may have blocked the checkpoint, without which the file is incomplete.
    if (!catalog.checkpoint()) throw catalogError('catalog-busy', { file: newFile });
    if (options.keepAs !== undefined && existsSync(file)) {
      unread = keepDatabase(file, options.keepAs);
      await realFiles.syncFolder(dirname(options.keepAs));
    }
  } catch (error) {
    catalog?.close();
    removeDatabase(newFile);
    throw error;
  }
  catalog.close();
  await swap(newFile, file);
  return { ...result, unread };
}

/** The log purges a message that the new catalog has already indexed. */
class IndexedBeforePurge extends Error {}

/**
 * Approximate number of records folded at a time: two batches of a first sync. Folding them takes less time than the
 * workers need to empty their queue.
 */
const RECORDS_AHEAD = 500;

/**
 * Fills a new catalog.
 *
 * @param early index messages while the rest of the log is folded
 * @throws IndexedBeforePurge with `early`, if the log purges one of them: its text must not get into the new file
 */
async function fill(
  catalog: WritableCatalog,
  options: RebuildOptions,
  early: boolean,
): Promise<Omit<RebuildResult, 'unread'>> {
  const { dir, extractor, signal, onIndex, expected, wholeLogOnly } = options;
  const { index: store, messages } = catalog;
  const sources = openLogReader({ dir, locator: catalog.locator });
  const ahead = early ? new IndexAhead({ store, messages, sources, extractor, signal }) : undefined;
  try {
    const damage: LogDamage[] = [];
    const onDamage = (found: LogDamage): void => {
      if (wholeLogOnly === true) throw damagedAt(found);
      damage.push(found);
    };
    const folded = await foldLog({
      dir,
      target: catalog,
      expected,
      signal,
      onDamage,
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
    // Counted before attachments, because their text causes messages to be indexed again.
    const { messages: total, pending, unparsed } = catalog.totals();
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
    const indexed = total - pending;
    return { ...folded, indexed, unparsed, attachments: read, damage, damagedMessages: damaged };
  } finally {
    ahead?.cancel();
    sources.close();
  }
}

/**
 * Replaces the old database. If it has no write-ahead log, as after every normal exit, one rename is enough, and a
 * catalog always exists. Otherwise, the database is removed before its log: SQLite drops a log without a database, but
 * would replay it into another database. After a crash between the two, the catalog is rebuilt on opening.
 */
async function swap(fresh: string, file: string): Promise<void> {
  const log = `${file}-wal`;
  const hasLog = existsSync(log) && statSync(log).size > 0;
  if (hasLog) removeDatabase(file);
  tryMove(fresh, file);
  for (const name of [log, `${file}-shm`]) rmSync(name, { force: true });
  await realFiles.syncFolder(dirname(file));
}

/**
 * Keeps the old catalog durably under a new name, because it may contain data that the log has lost. Moves a file that
 * cannot be copied, such as one with unreadable sectors.
 *
 * @returns why it was moved, an errno or `not a file`; null for a copy
 */
function keepDatabase(file: string, to: string): string | null {
  // In this order; see `swap`.
  const suffixes = ['', '-wal'].filter((suffix) => existsSync(`${file}${suffix}`));
  const move = (): void => {
    for (const suffix of suffixes) tryMove(`${file}${suffix}`, `${to}${suffix}`);
  };
  // Copying a pipe would block for ever.
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

function tryMove(from: string, to: string): void {
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

export async function withExtractors<T>(
  act: (extractor: Extractor, attachments: AttachmentExtractor) => Promise<T>,
): Promise<T> {
  const extractor = openExtractorPool();
  const attachments = openAttachmentExtractor();
  try {
    return await act(extractor, attachments);
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

/**
 * Rebuilds an archive's catalog, attachments included, with its own extractors. The caller holds the archive's lock.
 *
 * @throws errors from `rebuildCatalog`
 */
export function rebuildWithExtractors(
  options: Omit<RebuildOptions, 'extractor' | 'attachments'>,
): Promise<RebuildResult> {
  return withExtractors((extractor, attachments) =>
    rebuildCatalog({ ...options, extractor, attachments }),
  );
}
