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
import type { CommittedBatch } from '../archive/format.ts';
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
import { catalogFile } from './database.ts';
import { rebuildError } from './errors.ts';
import {
  BULK,
  createIndexer,
  type IndexingProgress,
  IndexingRound,
  type RoundOptions,
  readAttachments,
} from './indexer.ts';
import type { FreshMessage, IndexWriter, LogPosition } from './indexing.ts';

export interface FoldProgress {
  /** Commits folded so far. */
  readonly commits: number;
  /** Message records among them. */
  readonly messages: number;
}

interface FoldLogOptions {
  /** The data directory. */
  readonly dir: string;
  readonly target: Pick<WritableCatalog, 'foldBatches'> & {
    reached(): Pick<ReturnType<WritableCatalog['reached']>, 'number' | 'hash'>;
  };
  /** See `ScanOptions`. */
  readonly segments?: ScanOptions['segments'];
  /** A commit that the log has to hold: errors up to it, another commit in its place, and an end before it are damage. */
  readonly expected?: ExpectedCommit | undefined;
  readonly signal: AbortSignal;
  readonly progress?: ((progress: FoldProgress) => void) | undefined;
  /** Records from which on a transaction takes no more batches; `RECORDS` if not said. */
  readonly records?: number | undefined;
  /** Called before batches are folded. */
  readonly folding?: ((batches: readonly CommittedBatch[]) => void) | undefined;
  /** Called after each transaction, which the next one waits for. */
  readonly folded?: (() => Promise<void>) | undefined;
  /** See `ScanOptions`. */
  readonly inflated?: ScanOptions['inflated'];
  /** Called for each damaged position. Throw in it to stop there; what was read before is folded. */
  readonly onDamage: (damage: LogDamage) => void;
}

/** Batches folded in one transaction, and records in them, at most. */
const BATCHES = 64;
const RECORDS = 20_000;

/**
 * Folds the log into a catalog from the commit the catalog has reached. Stops at the end of the log or, between
 * two transactions, when aborted. Damage is reported; the batches behind it are still folded, as far as they
 * can be read.
 */
async function foldLog(options: FoldLogOptions): Promise<FoldProgress> {
  const { dir, target, segments, expected, signal, progress, folding, folded, inflated, onDamage } =
    options;
  const { number, hash } = target.reached();
  const seen = expected?.number;
  const most = options.records ?? RECORDS;
  let commits = 0;
  let messages = 0;
  let records = 0;
  let damaged = false;
  /** How far the log was read, and whether damage follows. */
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
  for await (const event of scanLog({ dir, segments, after: { number, hash }, seen, inflated })) {
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
      if (batches.length >= BATCHES || records >= most) await flush();
    }
  }
  await flush();
  if (!signal.aborted && seen !== undefined && end.number < seen && !end.isDamaged)
    onDamage({ file: dir, segment: end.segment, offset: 0, end: 0, reason: 'ends-early' });
  return { commits, messages };
}

/**
 * Brings a catalog level with the log: folds what was committed after the commit it has reached, as is the case
 * after a crash between a commit and its fold, or when the catalog was deleted. For the writer, on opening.
 *
 * @throws `log-damaged` at the first damage: nothing behind it is folded, `rebuild` is the way to do without.
 *   A log that ends before the catalog's commit, or has another one in its place, is damage too.
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
 * Indexes messages in the order of the log while the log is still folded: the workers extract what is folded already,
 * and its bytes are read while their blocks are in memory. What it leaves, an ordinary round indexes after the fold:
 * messages whose bytes are damaged, for which the log may hold a repair further on, and those that are due again.
 */
class IndexAhead {
  readonly #round: IndexingRound;
  #bulk = false;
  #last: LogPosition = { segment: 0, ordinal: 0 };

  constructor(private readonly options: IndexAheadOptions) {
    this.#round = new IndexingRound({ ...options, leaveDamaged: true }, ({ indexed }) => {
      if (this.#bulk || indexed < BULK) return;
      this.#bulk = true;
      options.store.mode('bulk');
    });
  }

  /**
   * Returns whether folding these batches removes a message that was indexed: the terms would go, but their bytes would
   * stay in the file. Only a purge that was cut off leaves such a message in the log.
   */
  isUndoneBy(batches: readonly CommittedBatch[]): boolean {
    return batches.some(({ records }) =>
      records.some(
        (record) =>
          record.kind === 'fact' &&
          record.fact.fact === 'purged' &&
          record.fact.again !== true &&
          this.options.messages.docidOf(record.fact.message) !== undefined,
      ),
    );
  }

  /** Starts the extraction of all messages that were folded since the last call. */
  async feed(): Promise<void> {
    await this.#round.feed(this.#fresh());
  }

  /** Waits for the last extractions and indexes them. */
  async finish(): Promise<void> {
    await this.#round.finish();
    if (this.#bulk) this.options.store.mode('steady');
  }

  /** Gives up what is in flight. */
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
  /** The data directory; the caller holds its lock and has closed its catalog. */
  readonly dir: string;
  readonly extractor: Extractor;
  /** Without it the text of attachments waits for the next pass. */
  readonly attachments?: AttachmentExtractor;
  readonly signal: AbortSignal;
  /** The commit that the old catalog has reached: errors up to it, and a log that ends before it, are damage. */
  readonly expected?: ExpectedCommit | undefined;
  /** Stops at the first damage instead of folding what can be read behind it. */
  readonly wholeLogOnly?: boolean | undefined;
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
 * @throws `rebuild-interrupted` when aborted, `catalog-disk-full`, `catalog-io`, with `wholeLogOnly` also `log-damaged`: then,
 *   as after any error, the old catalog is as it was, or where it was to be kept
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
    if (signal.aborted) throw rebuildError('rebuild-interrupted', { commits: result.commits });
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

/** Opens extractors of messages and of attachments for as long as `act` takes. */
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
 * Rebuilds the catalog of an archive, attachments included, with extractors of its own. The caller holds the
 * archive's lock.
 *
 * @throws what `rebuildCatalog` throws
 */
export function rebuild(
  options: Omit<RebuildOptions, 'extractor' | 'attachments'>,
): Promise<RebuildResult> {
  return withExtractors((extractor, attachments) =>
    rebuildCatalog({ ...options, extractor, attachments }),
  );
}
