import { hash as digest } from 'node:crypto';
import { type FileLayer, filesWithout } from '../../archive/files/file-layer.ts';
import { realFiles } from '../../archive/files/real-files.ts';
import { filesOverBadSectors } from '../../archive/mend/bad-sectors.ts';
import { scanLog } from '../../archive/read/scan-log.ts';
import type { ChainState } from '../../archive/read/segment-batches.ts';
import type { Batch } from '../../archive/write/batch.ts';
import type { LogWriter } from '../../archive/write/log-writer.ts';
import { openLogWriter } from '../../archive/write/open-log-writer.ts';
import { reachedBy } from '../../catalog/closed-catalog.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import type { SegmentChecker } from '../segment-checker.ts';
import { type Verification, verifyArchive } from '../verify-archive.ts';
import { archiveIdOf } from './archive-identity.ts';
import {
  type OtherCopy,
  openCopies,
  readableCopies,
  type SkippedCopy,
  type SkippedSegment,
  type Wanted,
} from './copies.ts';
import { type MendedSegment, mendLog, segmentsToMend } from './mend-log.ts';
import { proveCopies, type UnprovenCopy } from './proven.ts';

/** Gives a message's source from where it came from, or undefined where it cannot. Its hash is compared here. */
export type FetchAgain = (id: MessageId) => Promise<Buffer | undefined>;

export interface RepairOptions {
  /** The caller holds its lock, and has no catalog open. */
  readonly dir: string;
  readonly files?: FileLayer;
  readonly checker: SegmentChecker;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  /** Commits that a key of this archive has signed, in manifests of copies; none by default. */
  readonly vouched?: readonly ChainState[];
  /** Believe all that the copies say, also what nothing here proves. */
  readonly trustsCopies?: boolean;
  readonly fetchAgain?: FetchAgain | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export interface Repaired {
  /** What was found before anything was done. */
  readonly before: Verification;
  readonly mended: readonly MendedSegment[];
  readonly restored: readonly {
    readonly kind: 'message' | 'blob';
    readonly hash: string;
    readonly from: 'copy' | 'origin';
  }[];
  /**
   * Not recoverable. Recorded as missing until they are found, unless something was skipped: it may hold them, and the
   * next repair searches there.
   */
  readonly missing: readonly { readonly kind: 'message' | 'blob'; readonly hash: string }[];
  /** Copies that cannot be read. Nothing was taken from them. */
  readonly skippedCopies: readonly SkippedCopy[];
  /** Segments that cannot be read, of copies that were used. */
  readonly skippedSegments: readonly SkippedSegment[];
  /** Copies with commits behind the last one that is known here, which were not taken. */
  readonly unproven: readonly UnprovenCopy[];
  /** Why nothing could be appended to the log: its last segment is damaged beyond mending. */
  readonly unwritable: string | null;
}

/** A batch is committed from this size on. */
const BATCH_BYTES = 8 * 1024 * 1024;
const BATCH_MESSAGES = 128;

/**
 * Recovers damaged and missing bytes, accepts them only when their hash is right, and records what cannot be
 * recovered. Deletes nothing. Leaves the catalog as it is: the caller rebuilds it.
 *
 * @throws `repair-archive-unknown`, `repair-other-archive`: nothing was changed
 * @throws `disk-full` and the other errors of writing: what was mended before is whole, and it can be done again
 */
export async function repairArchive(options: RepairOptions): Promise<Repaired> {
  const { dir, files = realFiles, checker, signal } = options;
  // What the disk does not give back is damage like any other; only the writer has to know of it.
  const sectors = filesOverBadSectors(files);
  const { copies, hidden, ...skipped } = readableCopies(sectors, options.copies);
  const readable = hidden.size === 0 ? sectors : filesWithout(sectors, hidden);
  const verify = () => verifyArchive({ dir, files, checker, full: true, signal });
  const before = await verify();
  const expected = reachedBy(dir);
  const archiveId = archiveIdOf(readable, dir, copies, expected);
  const damaged = damagedSegments(before);
  const short = endsEarly(before);
  const wounds = { dir, files: readable, copies, damaged, endsEarly: short };
  const proof =
    damaged.length === 0 && !short
      ? undefined
      : await proveCopies({
          ...{ dir, files: readable, copies, expected, archiveId },
          segments: new Set(segmentsToMend(wounds)),
          vouched: options.vouched ?? [],
          trustsCopies: options.trustsCopies ?? false,
        });
  const mended = await mendLog({ ...wounds, expected, archiveId, proof });
  const after = mended.length > 0 ? await verify() : before;
  const wanted = wantedOf(after);
  const done = {
    ...{ before, mended, restored: [], missing: [], ...skipped, unwritable: null },
    unproven: proof?.unproven ?? [],
  };
  if (wanted.size === 0) return done;
  let writer: LogWriter;
  try {
    writer = await openLogWriter({ dir, files, now: options.now, expected });
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { ...done, unwritable: error.code };
  }
  const opened = await openCopies(readable, copies);
  try {
    const skippedCopies = [...skipped.skippedCopies, ...opened.skipped];
    const isAllRead = skippedCopies.length + skipped.skippedSegments.length === 0;
    const declare = isAllRead ? { except: await declared(readable, dir) } : null;
    const appended = await append(options, writer, opened.others, wanted, declare);
    return { ...done, ...appended, skippedCopies };
  } finally {
    for (const { close } of opened.others) close();
    await writer.close();
  }
}

function damagedSegments({ findings }: Verification): number[] {
  const found = findings.flatMap((finding) => (finding.what === 'log' ? [finding.segment] : []));
  return [...new Set(found)].sort((a, b) => a - b);
}

/** The catalog has seen a commit that the log has not, or has another one in its place. */
function endsEarly({ findings }: Verification): boolean {
  return findings.some((finding) => finding.what === 'commit' && finding.by === 'catalog');
}

function wantedOf({ findings }: Verification): Map<string, Wanted> {
  const wanted = new Map<string, Wanted>();
  for (const finding of findings) {
    if (finding.what === 'missing') {
      const { kind, hash } = finding;
      wanted.set(`${kind} ${hash}`, { kind, hash });
    } else if (finding.what === 'message' && finding.message.id !== null) {
      const { id } = finding.message;
      if (finding.reason !== 'purged') wanted.set(`message ${id}`, { kind: 'message', hash: id });
    }
  }
  return wanted;
}

/** Returns what earlier repairs recorded as missing, so that it is not recorded twice. */
async function declared(files: FileLayer, dir: string): Promise<Set<string>> {
  const known = new Set<string>();
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch') continue;
    for (const record of event.batch.records) {
      if (record.kind === 'fact' && record.fact.fact === 'missing') {
        known.add(`${record.fact.kind} ${record.fact.hash}`);
      }
    }
  }
  return known;
}

/** @param declare record what is found nowhere as missing, except what is recorded already; null: record nothing */
async function append(
  { fetchAgain, signal }: RepairOptions,
  writer: LogWriter,
  others: readonly OtherCopy[],
  wanted: ReadonlyMap<string, Wanted>,
  declare: { readonly except: ReadonlySet<string> } | null,
): Promise<Pick<Repaired, 'restored' | 'missing'>> {
  const restored: Repaired['restored'][number][] = [];
  const missing: Wanted[] = [];
  let batch = writer.newBatch();
  const flush = async (): Promise<void> => {
    if (batch.records === 0) return;
    const full = batch;
    batch = writer.newBatch();
    await writer.commit(full);
  };
  for (const [key, it] of wanted) {
    signal.throwIfAborted();
    const copied = others.map((other) => other.read(it)).find((bytes) => bytes !== undefined);
    const bytes = copied ?? (it.kind === 'message' ? await fetchAgain?.(it.hash) : undefined);
    if (bytes !== undefined && digest('sha256', bytes, 'hex') === it.hash) {
      add(batch, it, bytes);
      restored.push({ ...it, from: copied === undefined ? 'origin' : 'copy' });
    } else {
      const isNew = declare !== null && !declare.except.has(key);
      if (isNew) batch.addFact({ fact: 'missing', ...it, size: 0 });
      missing.push(it);
    }
    if (batch.bytes >= BATCH_BYTES || batch.messages >= BATCH_MESSAGES) await flush();
  }
  await flush();
  return { restored, missing };
}

/** All of a message's blobs are stored again: which of those here are sound is not asked. */
function add(batch: Batch, { kind, hash }: Wanted, bytes: Buffer): void {
  if (kind === 'message') batch.addSource(bytes, hash);
  else batch.addBlob(bytes);
}
