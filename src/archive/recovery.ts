import { errnoName, MailkeepError, NOT_REGULAR } from '../core/errors.ts';
import { archiveError } from './errors.ts';
import {
  type FileLayer,
  type LogFile,
  readFully,
  readSmallFile,
  replaceFile,
  writeAll,
} from './file-system.ts';
import {
  CODEC,
  type Commit,
  formatPath,
  logFolder,
  parseTailName,
  SEGMENT_HEADER_BYTES,
  tailPath,
} from './format.ts';
import { headerAt } from './sealed-footer.ts';
import {
  type OpenSegment,
  type SegmentListing,
  segmentDamage,
  withSegment,
} from './segment-files.ts';
import {
  type ChainState,
  type LogicalRecord,
  type Problem,
  type ReadBatch,
  type RecordReading,
  type Remainder,
  segmentBatches,
  type VisitResult,
} from './segment-reader.ts';

/** After a power cut, an unwritten page reads as zeros. */
const PAGE_BYTES = 4096;
/** A shorter run of zeros at the edge of a page proves nothing. */
const HOLE_BYTES = 16;

/**
 * Yields the batches of the segment being written, like `segmentBatches`. After a power cut, however, the disk may hold
 * the end of the last batch but not its middle. Such a torn batch was never acknowledged, so it belongs to the
 * remainder. It comes after `seen`, and each of its bad records touches a page of zeros, which flipped bits would not
 * produce.
 *
 * @param seen highest commit in the catalog or a checkpoint, or 0
 */
export function* readBatchesToEnd<T>(
  segment: OpenSegment,
  seen: number,
  reading: RecordReading,
  visit: (record: LogicalRecord & { readonly payload: Buffer }) => VisitResult<T>,
): Generator<ReadBatch<T> | Remainder, ChainState, undefined> {
  const { header } = segment;
  let chain: ChainState = { number: header.previousNumber, hash: header.previousHash };
  let offset = SEGMENT_HEADER_BYTES;
  let tornBatch: ReadBatch<T> | undefined;
  for (const item of segmentBatches<T>(segment, reading, visit)) {
    if (item.what === 'remainder') {
      if (tornBatch === undefined) yield item;
      else yield { ...item, offset, problems: [...tornBatch.problems, ...item.problems] };
      return chain;
    }
    if (tornBatch !== undefined) {
      // Another batch follows, so this one was acknowledged.
      yield tornBatch;
      ({ chain, offset } = stateAfter(tornBatch));
      tornBatch = undefined;
    }
    if (item.commit.number > seen && isTorn(segment.file, item.problems)) tornBatch = item;
    else {
      yield item;
      ({ chain, offset } = stateAfter(item));
    }
  }
  if (tornBatch !== undefined) {
    yield { what: 'remainder', offset, end: segment.file.size(), problems: tornBatch.problems };
  }
  return chain;
}

function stateAfter({ commit: { number, hash }, end }: ReadBatch<unknown>) {
  return { chain: { number, hash }, offset: end };
}

function isTorn(file: LogFile, problems: readonly Problem[]): boolean {
  if (problems.length === 0) return false;
  return problems.every(({ reason, offset, end }) => {
    if (reason !== 'bytes' && reason !== 'payload') return false;
    const bytes = Buffer.alloc(end - offset);
    readFully(file, bytes, offset);
    let from = offset;
    while (from < end) {
      const to = Math.min(end, (Math.floor(from / PAGE_BYTES) + 1) * PAGE_BYTES);
      const page = bytes.subarray(from - offset, to - offset);
      if (page.length >= HOLE_BYTES && page.every((byte) => byte === 0)) return true;
      from = to;
    }
    return false;
  });
}

/** The catalog's last commit, or number 0. */
export type ExpectedCommit = Pick<Commit, 'number' | 'hash'> & Partial<Pick<Commit, 'time'>>;

/** Bytes of an interrupted write that were moved to a separate file. */
export interface TornTail {
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
  readonly file: string;
}

/** The position at which the writer continues. */
export interface SegmentEnd {
  readonly chain: ChainState;
  /** Time of the last commit in the segment, or 0. */
  readonly time: number;
  readonly ordinal: number;
  readonly offset: number;
}

const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * Reads the last segment and finds the start of its torn tail. The tail follows the last valid commit anywhere in the
 * segment, and includes a torn last batch (see `readBatchesToEnd`). An error before that commit is damage.
 *
 * @throws `log-damaged`, `log-ends-early`, `log-diverged`
 */
export function findSegmentEnd(
  segment: OpenSegment,
  expected: ExpectedCommit | undefined,
): SegmentEnd {
  const { header, path } = segment;
  let end: SegmentEnd = {
    chain: { number: header.previousNumber, hash: header.previousHash },
    time: 0,
    ordinal: 0,
    offset: SEGMENT_HEADER_BYTES,
  };
  checkExpectedHash(end.chain, expected, path);
  const seen = expected?.number ?? 0;
  for (const item of readBatchesToEnd(segment, seen, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    const [problem] = item.problems;
    if (problem !== undefined) throw segmentDamage(segment, problem.offset, problem.reason);
    const { number, hash, time, ordinal } = item.commit;
    end = { chain: { number, hash }, time, ordinal: ordinal + 1, offset: item.end };
    checkExpectedHash(end.chain, expected, path);
  }
  requireExpectedCommit(path, expected, end.chain.number);
  return end;
}

/** @throws `log-ends-early` if the log does not reach the expected commit */
export function requireExpectedCommit(
  file: string,
  expected: ExpectedCommit | undefined,
  lastNumber: number,
): void {
  if (expected === undefined || expected.number <= lastNumber) return;
  const { number: expectedNumber, hash: expectedHash } = expected;
  throw archiveError('log-ends-early', { file, expectedNumber, expectedHash, lastNumber });
}

/** @throws `log-diverged` if a commit has the expected number but a different hash */
function checkExpectedHash(
  chain: ChainState,
  expected: ExpectedCommit | undefined,
  file: string,
): void {
  if (expected === undefined || expected.number === 0 || chain.number !== expected.number) return;
  if (chain.hash === expected.hash) return;
  throw archiveError('log-diverged', {
    file,
    number: chain.number,
    expectedHash: expected.hash,
    foundHash: chain.hash,
  });
}

/** Durably moves bytes after `end` to a new file, then truncates the segment. Returns undefined if there are none. */
export async function setTailAside(
  files: FileLayer,
  dir: string,
  file: LogFile,
  segment: number,
  end: SegmentEnd,
): Promise<TornTail | undefined> {
  const bytes = file.size() - end.offset;
  if (bytes <= 0) return undefined;
  const path = nextTailPath(files, dir);
  const tail = files.open(path, 'create');
  try {
    const piece = Buffer.allocUnsafe(Math.min(bytes, PIECE_BYTES));
    let done = 0;
    while (done < bytes) {
      const room = piece.subarray(0, Math.min(piece.length, bytes - done));
      const got = readFully(file, room, end.offset + done);
      if (got === 0) break;
      await writeAll(tail, room.subarray(0, got), done);
      done += got;
    }
    await tail.datasync();
  } finally {
    tail.close();
  }
  await files.syncFolder(logFolder(dir));
  await file.truncate(end.offset);
  await file.datasync();
  return { segment, offset: end.offset, bytes, file: path };
}

function nextTailPath(files: FileLayer, dir: string): string {
  const numbers = files.list(logFolder(dir)).map(parseTailName);
  return tailPath(dir, Math.max(0, ...numbers.map((tail) => tail ?? 0)) + 1);
}

/** The format without zstd. Every version can read it. */
const FIRST_FORMAT = 1;
/** The format that allows zstd, and the newest that this version can read. */
const ZSTD_FORMAT = 2;

const FORMAT = /^mailkeep archive (\d+)\n?$/;

/**
 * Returns the number in FORMAT.
 *
 * @throws `archive-missing` if the directory holds no archive, `archive-format-newer`, `archive-format-unreadable`
 */
export function checkFormat(files: FileLayer, dir: string): number {
  const text = readFormat(files, dir);
  if (text === undefined) {
    throw hasLog(files, dir)
      ? archiveError('archive-format-unreadable', { dir, found: null })
      : archiveError('archive-missing', { dir });
  }
  return refuseUnknownFormat(dir, text);
}

/** Returns the number in the text of a FORMAT file. @throws `archive-format-newer`, `archive-format-unreadable` */
export function refuseUnknownFormat(dir: string, text: string): number {
  const version = FORMAT.exec(text)?.[1];
  if (version === undefined)
    throw archiveError('archive-format-unreadable', { dir, found: text.slice(0, 64) });
  if (Number(version) > ZSTD_FORMAT) {
    throw archiveError('archive-format-newer', {
      dir,
      found: `mailkeep archive ${version}`,
      supported: ZSTD_FORMAT,
    });
  }
  return Number(version);
}

/** Reports whether a directory has neither FORMAT nor a log, so an archive can be created there. */
export function isUnused(files: FileLayer, dir: string): boolean {
  return readFormat(files, dir) === undefined && !hasLog(files, dir);
}

/** Durably writes a new archive's FORMAT file. It must be the first file, because a log without it is damaged. */
export async function writeFormat(files: FileLayer, dir: string): Promise<void> {
  await write(files, dir, FIRST_FORMAT);
}

export function allowsZstd(files: FileLayer, dir: string): boolean {
  return checkFormat(files, dir) >= ZSTD_FORMAT;
}

/**
 * Durably changes FORMAT to allow zstd. Call it before writing any zstd, even to a temporary file. Versions without
 * zstd then refuse the archive instead of reporting damage. The caller holds the archive's lock.
 */
export async function allowZstd(files: FileLayer, dir: string): Promise<void> {
  if (!allowsZstd(files, dir)) {
    await write(files, dir, ZSTD_FORMAT);
    return;
  }
  // If FORMAT was written by a process that was then killed, it might not survive a power cut.
  await files.syncFolder(dir);
}

/** Checks the footer, which is always compressed. */
export function isSealedWithZstd(segment: OpenSegment): boolean {
  const { sealed } = segment;
  return sealed !== undefined && headerAt(segment, sealed.offset)?.codec === CODEC.zstd;
}

/**
 * Changes FORMAT to allow zstd if the log already contains it. A backup made file by file can have a FORMAT that is
 * older than its segments. Only the first and last sealed segments are checked, because compaction starts with the
 * first segment, and sealing continues after the last. The caller holds the archive's lock.
 */
export async function declareZstd(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
): Promise<void> {
  if (allowsZstd(files, dir)) return;
  const sealed = [...listing].filter(([, generations]) => Math.max(...generations) > 1);
  for (const one of new Set([sealed.at(0), sealed.at(-1)])) {
    if (one === undefined || !holdsZstd(files, dir, ...one)) continue;
    await allowZstd(files, dir);
    return;
  }
}

function holdsZstd(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): boolean {
  try {
    return withSegment(files, dir, segment, isSealedWithZstd, generations);
  } catch (error) {
    // Verification reports the damaged segment, which does not prevent appending to the log.
    if (error instanceof MailkeepError && error.family === 'damage') return false;
    throw error;
  }
}

async function write(files: FileLayer, dir: string, version: number): Promise<void> {
  const text = `mailkeep archive ${version}\n`;
  await replaceFile(files, formatPath(dir), Buffer.from(text, 'latin1'));
}

function readFormat(files: FileLayer, dir: string): string | undefined {
  try {
    return readSmallFile(files, formatPath(dir)).toString('utf8');
  } catch (error) {
    const errno = errnoName(error);
    if (errno === 'ENOENT') return undefined;
    // FORMAT is not a regular file.
    if (errno === NOT_REGULAR || errno === 'EISDIR') return '';
    throw error;
  }
}

function hasLog(files: FileLayer, dir: string): boolean {
  try {
    return files.list(logFolder(dir)).some((name) => name.endsWith('.seg'));
  } catch (error) {
    if (errnoName(error) === 'ENOENT') return false;
    throw error;
  }
}
