import type { CommittedBatch } from '../archive/format/records.ts';
import { type LogDamage, type ScanOptions, scanLog } from '../archive/read/scan-log.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { logDamaged } from '../errors/archive.ts';

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
  /** See `ScanOptions`. */
  readonly seen?: number | undefined;
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
export async function foldLog(options: FoldLogOptions): Promise<FoldProgress> {
  const { dir, target, segments, seen, signal, progress, folding, folded, inflated, onDamage } =
    options;
  const { number, hash } = target.reached();
  const most = options.records ?? RECORDS;
  let commits = 0;
  let messages = 0;
  let records = 0;
  let damaged = false;
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
      onDamage(event.damage);
    } else if (event.what === 'batch') {
      batches.push(event.batch);
      records += event.batch.records.length;
      for (const record of event.batch.records) if (record.kind === 'message') messages++;
      if (batches.length >= BATCHES || records >= most) await flush();
    }
  }
  await flush();
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
    onDamage: ({ file, segment, offset, reason }) => {
      throw logDamaged({ file, segment, offset, reason });
    },
  });
}
