import { hash as digest } from 'node:crypto';
import { filesOverBadSectors } from '../../archive/bad-sectors.ts';
import type { Batch } from '../../archive/batch.ts';
import { type FileLayer, openIfFile } from '../../archive/file-layer.ts';
import { checkFormat } from '../../archive/format-file.ts';
import { segmentPath } from '../../archive/layout.ts';
import { openLogReader } from '../../archive/log-reader.ts';
import type { LogWriter } from '../../archive/log-writer.ts';
import { openLogWriter } from '../../archive/open-log-writer.ts';
import { realFiles } from '../../archive/real-files.ts';
import { scanLog } from '../../archive/scan-log.ts';
import { listSegments } from '../../archive/segment-files.ts';
import { type ImpliedCatalog, openImplied } from '../../catalog/implied.ts';
import { reachedBy } from '../../catalog/reached-by.ts';
import { errnoOf } from '../../errors/errno.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import type { SegmentChecker } from '../segment-threads.ts';
import { type Verification, verifyArchive } from '../verify-archive.ts';
import { archiveIdOf } from './archive-identity.ts';
import { forgottenIn } from './forgotten.ts';
import { type MendedSegment, mendLog } from './mend-log.ts';

/** Gives a message's source from where it came from, or undefined where it cannot. Its hash is compared here. */
export type FetchAgain = (id: MessageId) => Promise<Buffer | undefined>;

export interface RepairOptions {
  /** The caller holds its lock, and has no catalog open. */
  readonly dir: string;
  readonly files?: FileLayer;
  readonly checker: SegmentChecker;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
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
  /** Found nowhere: recorded as missing, for ever or until somebody brings them. */
  readonly missing: readonly { readonly kind: 'message' | 'blob'; readonly hash: string }[];
  /** Copies that cannot be read, with the system's name of the reason, or our code. Nothing was taken from them. */
  readonly skippedCopies: readonly SkippedCopy[];
  /** Why nothing could be appended to the log: its last segment is damaged beyond mending. */
  readonly unwritable: string | null;
}

export interface SkippedCopy {
  readonly copy: string;
  readonly reason: string;
}

/** A batch is committed from this size on. */
const BATCH_BYTES = 8 * 1024 * 1024;
const BATCH_MESSAGES = 128;

/**
 * Finds damaged and missing bytes again, accepts them only when their hash is right, and records what was found
 * nowhere. Nothing is deleted. The catalog is left as it is: the caller makes it anew.
 *
 * @throws `repair-archive-unknown`, `repair-other-archive`: nothing was changed
 * @throws `disk-full` and the other errors of writing: what was mended before is whole, and it can be done again
 */
export async function repairArchive(options: RepairOptions): Promise<Repaired> {
  const { dir, files = realFiles, checker, signal } = options;
  // What the disk does not give back is damage like any other; only the writer has to know of it.
  const readable = filesOverBadSectors(files);
  const { copies, skipped } = readableCopies(readable, options.copies);
  const verify = () => verifyArchive({ dir, files, checker, full: true, signal });
  const before = await verify();
  const expected = reachedBy(dir);
  const archiveId = archiveIdOf(readable, dir, copies, expected);
  const damaged = damagedSegments(before);
  const isForgotten =
    damaged.length === 0 && !endsEarly(before)
      ? undefined
      : await forgottenIn(readable, [dir, ...copies]);
  const mended = await mendLog({
    dir,
    files: readable,
    copies,
    damaged,
    expected,
    endsEarly: endsEarly(before),
    archiveId,
    isForgotten,
  });
  const after = mended.length > 0 ? await verify() : before;
  const wanted = wantedOf(after);
  const skippedCopies = skipped;
  const done = { before, mended, restored: [], missing: [], skippedCopies, unwritable: null };
  if (wanted.size === 0) return done;
  let writer: LogWriter;
  try {
    writer = await openLogWriter({ dir, files, now: options.now, expected });
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { ...done, unwritable: error.code };
  }
  const others = await openCopies(readable, copies, skipped);
  try {
    const appended = await append(options, writer, others, wanted, await declared(readable, dir));
    return { ...done, ...appended };
  } finally {
    for (const { close } of others) close();
    await writer.close();
  }
}

/**
 * Sorts out copies that cannot be read: one hostile or broken copy must not keep the others from helping. Damage in a
 * copy is no reason to skip it, and neither is a pipe or a folder instead of a segment.
 */
function readableCopies(files: FileLayer, given: readonly string[]) {
  const copies: string[] = [];
  const skipped: SkippedCopy[] = [];
  for (const copy of given) {
    const reason = whyUnreadable(files, copy);
    if (reason === undefined) copies.push(copy);
    else skipped.push({ copy, reason });
  }
  return { copies, skipped };
}

function whyUnreadable(files: FileLayer, copy: string): string | undefined {
  try {
    try {
      checkFormat(files, copy);
    } catch (error) {
      // Its segments are worth what they always were.
      if (!hasCode(error, 'archive-format-unreadable')) throw error;
    }
    for (const [segment, generations] of listSegments(files, copy)) {
      for (const generation of generations) {
        openIfFile(files, segmentPath(copy, { segment, generation }))?.close();
      }
    }
    return undefined;
  } catch (error) {
    if (error instanceof MailkeepError) return error.code;
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return errno;
  }
}

interface Wanted {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
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

interface OtherCopy {
  read(wanted: Wanted): Buffer | undefined;
  close(): void;
}

/**
 * Copies are read by what their logs say: they may have no catalog.
 *
 * @param skipped those are added to it that cannot be read
 */
async function openCopies(
  files: FileLayer,
  copies: readonly string[],
  skipped: SkippedCopy[],
): Promise<OtherCopy[]> {
  const opened: OtherCopy[] = [];
  for (const dir of copies) {
    const implied = await openImplied();
    try {
      await foldAll(files, dir, implied);
    } catch (error) {
      implied.close();
      const reason = error instanceof MailkeepError ? error.code : errnoOf(error);
      if (reason === undefined) throw error;
      skipped.push({ copy: dir, reason });
      continue;
    }
    const reader = openLogReader({ dir, files, locator: implied.locator });
    opened.push({
      read({ kind, hash }) {
        try {
          return kind === 'message' ? reader.readMessage(hash) : reader.readBlob(hash);
        } catch (error) {
          if (error instanceof MailkeepError) return undefined;
          throw error;
        }
      },
      close() {
        reader.close();
        implied.close();
      },
    });
  }
  return opened;
}

async function foldAll(files: FileLayer, dir: string, implied: ImpliedCatalog): Promise<void> {
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch' || event.batch.commit.number <= implied.reached().number) continue;
    implied.fold([event.batch], true);
  }
}

/** What earlier repairs recorded as missing: it is not said twice. */
async function declared(files: FileLayer, dir: string): Promise<Set<string>> {
  const said = new Set<string>();
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch') continue;
    for (const record of event.batch.records) {
      if (record.kind === 'fact' && record.fact.fact === 'missing') {
        said.add(`${record.fact.kind} ${record.fact.hash}`);
      }
    }
  }
  return said;
}

async function append(
  { fetchAgain, signal }: RepairOptions,
  writer: LogWriter,
  others: readonly OtherCopy[],
  wanted: ReadonlyMap<string, Wanted>,
  declaredBefore: ReadonlySet<string>,
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
      if (!declaredBefore.has(key)) batch.addFact({ fact: 'missing', ...it, size: 0 });
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
