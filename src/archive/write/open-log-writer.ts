import { hash as digest, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { logSyncFailed } from '../../errors/archive.ts';
import { errnoName } from '../../errors/mailkeep-error.ts';
import { type FileLayer, openIfFile, readWhole } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { ARCHIVE_ID_BYTES, genesisHash, RECORD_HEADER_BYTES } from '../format/headers.ts';
import {
  formatPath,
  isTemporary,
  logFolder,
  parseTailName,
  tailPath,
  temporaryPath,
} from '../format/layout.ts';
import { filesWithDamage } from '../mend/bad-sectors.ts';
import { announceZstd, checkFormat, isUnused, writeFormat } from '../read/format-file.ts';
import {
  type ExpectedCommit,
  findEnd,
  putTailAside,
  refuseEarlyEnd,
  type SegmentEnd,
  type TornTail,
} from '../read/recovery.ts';
import { segmentBatches } from '../read/segment-batches.ts';
import {
  listSegments,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  withSegment,
} from '../read/segment-files.ts';
import { createSegment, syncing, writing } from './hot-segment.ts';
import type { LogThread } from './log-thread.ts';
import { LogWriter, type WriterSettings } from './log-writer.ts';

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]);

/**
 * Looks for payloads in the tails that were put aside. A tail does not say where it stood, so header CRCs cannot be
 * asked; the SHA-256 of the payload is.
 *
 * @param wanted hexadecimal SHA-256 values
 */
export function payloadsInTails(
  files: FileLayer,
  dir: string,
  wanted: ReadonlySet<string>,
): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  if (wanted.size === 0) return found;
  for (const name of files.list(logFolder(dir))) {
    const number = parseTailName(name);
    if (number === undefined) continue;
    const tail = openIfFile(files, tailPath(dir, number));
    if (tail === undefined) continue;
    tail.close();
    const bytes = readWhole(files, tailPath(dir, number));
    for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
      if (at + RECORD_HEADER_BYTES > bytes.length) break;
      const hash = bytes.toString('hex', at + 16, at + 48);
      if (!wanted.has(hash)) continue;
      const start = at + RECORD_HEADER_BYTES;
      const payload = bytes.subarray(start, start + bytes.readUInt32LE(at + 12));
      if (digest('sha256', payload, 'hex') === hash) found.set(hash, payload);
    }
  }
  return found;
}

export interface LogWriterOptions {
  /** The archive's folder; the caller holds its lock (see `acquireLock`). */
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly files?: FileLayer;
  /** The commit that the catalog has reached, if there is a catalog. A log that ends before it is damaged. */
  readonly expected?: ExpectedCommit | undefined;
  /** Called when the bytes of a torn write were put aside. */
  readonly onTail?: (tail: TornTail) => void;
  /** A batch begins in a new segment once the present one has this many bytes; default about 64 MiB. */
  readonly segmentBytes?: number;
  /** Starts a thread that writes when many messages come; without it, the caller's thread writes. */
  readonly startThread?: () => LogThread;
  /** See `WriterSettings`. */
  readonly threadFrom?: number;
}

/**
 * Opens the log for writing, and lays out a new archive where there is none. Removes unfinished files, makes the last
 * segment durable before it trusts its commits, and puts a torn tail aside.
 *
 * @throws errors of family `damage` when the log is not what was written, or the disk does not give it back: then
 *   nothing was changed
 * @throws `archive-format-newer`; `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function openLogWriter(options: LogWriterOptions): Promise<LogWriter> {
  const { dir, now, segmentBytes, startThread, threadFrom } = options;
  const files = filesWithDamage(options.files ?? realFiles);
  const settings: WriterSettings = {
    dir,
    now,
    files,
    segmentBytes,
    startThread,
    threadFrom,
  };
  await layOut(files, dir);
  await removeUnfinished(files, dir);
  const listing = listSegments(files, dir);
  const last = [...listing].at(-1);
  if (last === undefined) return beginLog(settings, options.expected);

  await writing(dir, 0, () => announceZstd(files, dir, listing));
  const opened = openInForce(files, dir, ...last);
  try {
    return await continueLog(settings, options, opened, listing);
  } finally {
    opened.file.close();
  }
}

/**
 * Lays out a new archive in a folder that holds none, and refuses one that this program cannot read.
 *
 * @throws `archive-format-newer`, `archive-format-unreadable`; `disk-full`, `log-write-failed`
 */
export async function layOut(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  await writing(folder, 0, async () => files.makeFolder(folder));
  if (isUnused(files, dir)) await writing(dir, 0, () => writeFormat(files, dir));
  checkFormat(files, dir);
}

/**
 * Removes the files that interrupted work left under temporary names.
 *
 * @throws `log-write-failed`
 */
export async function removeUnfinished(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of files.list(folder).filter(isTemporary)) {
    await writing(folder, 0, () => files.remove(join(folder, name)));
  }
  const format = temporaryPath(formatPath(dir));
  if (files.list(dir).includes(basename(format))) {
    await writing(dir, 0, () => files.remove(format));
  }
}

async function beginLog(
  settings: WriterSettings,
  expected: ExpectedCommit | undefined,
): Promise<LogWriter> {
  const { dir, files } = settings;
  refuseEarlyEnd(logFolder(dir), expected, 0);
  const archiveId = randomBytes(ARCHIVE_ID_BYTES);
  const chain = { number: 0, hash: genesisHash(archiveId) };
  const hot = await createSegment(files, dir, archiveId, 1, chain);
  // The folders themselves have to outlive a power cut, too.
  await syncing(dir, () => files.syncFolder(dir));
  await files.syncFolder(dirname(dir)).catch((error: unknown) => {
    // The parent folder may belong to another user and be unreadable.
    if (errnoName(error) !== 'EACCES') throw logSyncFailed(dirname(dir), error);
  });
  return new LogWriter(settings, { archiveId, hot, chain, time: 0 });
}

async function continueLog(
  settings: WriterSettings,
  { expected, onTail }: LogWriterOptions,
  opened: OpenSegment,
  listing: SegmentListing,
): Promise<LogWriter> {
  const { dir, files } = settings;
  const { path, name, header } = opened;
  const { archiveId, segment } = header;
  // Whoever knows the last commit knows its time as well; otherwise a whole segment is read for it.
  const timeBefore = ({ chain }: SegmentEnd): number =>
    expected?.time !== undefined && expected.hash === chain.hash
      ? expected.time
      : lastTimeBefore(files, dir, listing, segment);
  const startAt = (end: SegmentEnd) => ({
    archiveId,
    chain: end.chain,
    time: end.time > 0 ? end.time : timeBefore(end),
  });
  if (name.generation > 1) {
    // The last segment is sealed: the one that was begun after it has been removed.
    const end = findEnd(opened, expected);
    const hot = await createSegment(files, dir, archiveId, segment + 1, end.chain);
    return new LogWriter(settings, { ...startAt(end), hot });
  }
  const file = files.open(path, 'write');
  try {
    // What the page cache shows of an earlier run may not be on the disk yet.
    await syncing(path, () => file.datasync());
    const end = findEnd(opened, expected);
    const tail = await writing(path, 0, () => putTailAside(files, dir, file, segment, end));
    if (tail !== undefined) onTail?.(tail);
    const { offset, ordinal } = end;
    return new LogWriter(settings, {
      ...startAt(end),
      hot: { file, path, segment, offset, ordinal },
    });
  } catch (error) {
    file.close();
    throw error;
  }
}

/** The time of the last commit before a segment that has none yet. */
function lastTimeBefore(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  segment: number,
): number {
  const generations = listing.get(segment - 1);
  if (generations === undefined) return 0;
  return withSegment(files, dir, segment - 1, generations, (opened) => {
    let time = 0;
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      if (item.what === 'batch') time = Math.max(time, item.commit.time);
    }
    return time;
  });
}
