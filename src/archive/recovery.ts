import { errnoName, hasCode, MailkeepError, NOT_REGULAR } from '../core/errors.ts';
import { archiveError } from './errors.ts';
import {
  type FileLayer,
  type LogFile,
  openIfFile,
  readFully,
  readWhole,
  replaceFile,
  writeAll,
} from './file-system.ts';
import {
  CODEC,
  type Commit,
  formatPath,
  logFolder,
  parseTailName,
  RECORD_HEADER_BYTES,
  type RecordSpace,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  segmentPath,
  tailPath,
} from './format.ts';
import {
  damageIn,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  withSegment,
} from './segment-files.ts';
import {
  type ChainState,
  type LogicalRecord,
  type Problem,
  type ReadBatch,
  type RecordReading,
  type Remainder,
  type Standing,
  segmentBatches,
  type Visited,
} from './segment-reader.ts';

/** After a power cut, pages that were not written read as zeros. */
const PAGE_BYTES = 4096;
/** Fewer zeros than this at the edge of a page prove nothing. */
const HOLE_BYTES = 16;

/**
 * Yields the batches of the segment being written, like `segmentBatches`, with one exception. After a power cut, the
 * disk may have the end of the last batch but not its middle. That batch was never acknowledged, so it belongs to the
 * remainder. This applies only to the last batch, after `seen`. Every wrong record in it must touch a page, or the rest
 * of one, of zeros only: unwritten pages are zero, flipped bits are not.
 *
 * @param seen the highest commit number that the catalog or a checkpoint has seen; 0 for none
 */
export function* batchesToTheEnd<T>(
  segment: OpenSegment,
  seen: number,
  reading: RecordReading,
  visit: (record: LogicalRecord & { readonly payload: Buffer }) => Visited<T>,
): Generator<ReadBatch<T> | Remainder, ChainState, undefined> {
  const { header } = segment;
  let chain: ChainState = { number: header.previousNumber, hash: header.previousHash };
  let offset = SEGMENT_HEADER_BYTES;
  let torn: ReadBatch<T> | undefined;
  for (const item of segmentBatches<T>(segment, reading, visit)) {
    if (item.what === 'remainder') {
      if (torn === undefined) yield item;
      else yield { ...item, offset, problems: [...torn.problems, ...item.problems] };
      return chain;
    }
    if (torn !== undefined) {
      // Another batch follows, so this one was acknowledged: the system does not write ahead.
      yield torn;
      ({ chain, offset } = behind(torn));
      torn = undefined;
    }
    if (item.commit.number > seen && isTorn(segment.file, item.problems)) torn = item;
    else {
      yield item;
      ({ chain, offset } = behind(item));
    }
  }
  if (torn !== undefined) {
    yield { what: 'remainder', offset, end: segment.file.size(), problems: torn.problems };
  }
  return chain;
}

function behind({ commit: { number, hash }, end }: ReadBatch<unknown>) {
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

/** The last commit that the catalog has seen; number 0 if none. */
export type ExpectedCommit = Pick<Commit, 'number' | 'hash'> & Partial<Pick<Commit, 'time'>>;

/** Bytes of an interrupted write, moved to a file of their own. */
export interface TornTail {
  readonly segment: number;
  /** Start offset in the segment. */
  readonly offset: number;
  readonly bytes: number;
  /** The file that now holds them. */
  readonly file: string;
}

/** The position at which the writer continues. */
export interface SegmentEnd {
  readonly chain: ChainState;
  /** Time of the last commit in the segment; 0 if there is none. */
  readonly time: number;
  /** The ordinal of the next record. */
  readonly ordinal: number;
  /** Offset of the next record, after the last commit. */
  readonly offset: number;
}

/** Bytes of a tail moved at a time. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * Reads the last segment and distinguishes its torn tail from damage. The tail follows the last valid commit anywhere
 * in the segment, and includes a torn last batch (see `batchesToTheEnd`). An error before that commit is damage.
 *
 * @throws `log-damaged`, `log-ends-early`, `log-diverged`; nothing is changed
 */
export function findEnd(segment: OpenSegment, expected: ExpectedCommit | undefined): SegmentEnd {
  const { header, path } = segment;
  let end: SegmentEnd = {
    chain: { number: header.previousNumber, hash: header.previousHash },
    time: 0,
    ordinal: 0,
    offset: SEGMENT_HEADER_BYTES,
  };
  checkExpected(end.chain, expected, path);
  const seen = expected?.number ?? 0;
  for (const item of batchesToTheEnd(segment, seen, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    const [problem] = item.problems;
    if (problem !== undefined) throw damageIn(segment, problem.offset, problem.reason);
    const { number, hash, time, ordinal } = item.commit;
    end = { chain: { number, hash }, time, ordinal: ordinal + 1, offset: item.end };
    checkExpected(end.chain, expected, path);
  }
  refuseEarlyEnd(path, expected, end.chain.number);
  return end;
}

/**
 * Checks that a log reaches the expected commit.
 *
 * @throws `log-ends-early`
 */
export function refuseEarlyEnd(
  file: string,
  expected: ExpectedCommit | undefined,
  lastNumber: number,
): void {
  if (expected === undefined || expected.number <= lastNumber) return;
  const { number: expectedNumber, hash: expectedHash } = expected;
  throw archiveError('log-ends-early', { file, expectedNumber, expectedHash, lastNumber });
}

/** @throws `log-diverged` if a commit has the expected number and another hash */
export function checkExpected(
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

/** Moves bytes after `end` to a new file: durable there before the segment is cut. Undefined if there are none. */
export async function putTailAside(
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

/** Moves a segment's file durably out of the log to a torn tail's name. */
export async function putSegmentAside(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
): Promise<TornTail> {
  const path = segmentPath(dir, name);
  const opened = openIfFile(files, path);
  const bytes = opened?.size() ?? 0;
  opened?.close();
  const file = nextTailPath(files, dir);
  await files.rename(path, file);
  await files.syncFolder(logFolder(dir));
  return { segment: name.segment, offset: 0, bytes, file };
}

function nextTailPath(files: FileLayer, dir: string): string {
  const taken = files.list(logFolder(dir)).map(parseTailName);
  return tailPath(dir, Math.max(0, ...taken.map((tail) => tail ?? 0)) + 1);
}

/** The format of an archive without zstd; every program version reads it. */
const FIRST_FORMAT = 1;
/** The first format that allows zstd, and the newest that this program reads. */
export const ZSTD_FORMAT = 2;

const FORMAT = /^mailkeep archive (\d+)\n?$/;

/**
 * Reads FORMAT and returns its number. Refuses formats that this program cannot read.
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

/**
 * Returns the format number in the text of a FORMAT file.
 *
 * @param dir for the error
 * @throws `archive-format-newer`, `archive-format-unreadable`
 */
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

/** Returns true if the directory holds neither FORMAT nor a log, so that a new archive may be created there. */
export function isUnused(files: FileLayer, dir: string): boolean {
  return readFormat(files, dir) === undefined && !hasLog(files, dir);
}

/** Writes the FORMAT of a new archive durably. It must be the first file: a log without it is damage. */
export async function writeFormat(files: FileLayer, dir: string): Promise<void> {
  await write(files, dir, FIRST_FORMAT);
}

export function allowsZstd(files: FileLayer, dir: string): boolean {
  return checkFormat(files, dir) >= ZSTD_FORMAT;
}

/**
 * Makes FORMAT allow zstd, durably. A program without zstd then refuses the archive instead of reporting damage. Call
 * it before writing zstd to any file of the archive, even a temporary one. The caller holds the archive's lock.
 */
export async function allowZstd(files: FileLayer, dir: string): Promise<void> {
  if (!allowsZstd(files, dir)) {
    await write(files, dir, ZSTD_FORMAT);
    return;
  }
  // A killed process may have left a visible FORMAT that would not survive a power cut.
  await files.syncFolder(dir);
}

/** Returns whether a segment was sealed with zstd, judged by its footer, which is always compressed. */
export function isSealedWithZstd({ file, header, sealed }: OpenSegment): boolean {
  if (sealed === undefined) return false;
  const head = Buffer.alloc(RECORD_HEADER_BYTES);
  const got = readFully(file, head, sealed.offset);
  return readRecordHeader(head.subarray(0, got), 0, header, sealed.offset)?.codec === CODEC.zstd;
}

/**
 * Makes FORMAT allow zstd if the log already contains it. A backup made file by file may have an older FORMAT than its
 * segments. Checks the first and last sealed segments: compaction goes from the start, and sealing happens at the end.
 * The caller holds the archive's lock.
 */
export async function announceZstd(
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
    return withSegment(files, dir, segment, generations, isSealedWithZstd);
  } catch (error) {
    // A damaged segment does not prevent writing after it; verification reports it.
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
    return readWhole(files, formatPath(dir)).toString('utf8');
  } catch (error) {
    const errno = errnoName(error);
    if (errno === 'ENOENT') return undefined;
    // The name belongs to something other than a file.
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

/** A segment in generation 1, not sealed yet. */
export interface UnsealedSegment {
  readonly segment: number;
  /** The last commit before the segment. */
  readonly previous: ChainState;
  /** End of its last batch. */
  readonly offset: number;
  /** Number of its records: the ordinal of the next. */
  readonly ordinal: number;
}

/** The end of a log, from its durability backend. */
export interface LogEnd {
  readonly archiveId: Buffer;
  /** The last commit; number 0, the genesis hash and time 0 before the first. */
  readonly commit: Commit;
  /** The segment being written. */
  readonly hot: UnsealedSegment;
  /** Earlier segments that are sealed nowhere yet, in order. They must be complete here to be sealed. */
  readonly closed?: readonly UnsealedSegment[];
}

/** Bytes that the local file of a segment in generation 1 lacks. */
export interface MissingBytes {
  /** `segment`: the local file, if any, is unusable. */
  readonly what: 'end' | 'segment';
  readonly segment: number;
  readonly from: number;
  readonly until: number;
  /** The commit that ends at `from`. If the log differs there, the whole segment has to be supplied. */
  readonly after: ChainState;
}

/** @throws `log-damaged` (`diverged`) if the last segment with an intact header belongs to another archive */
export function refuseStranger(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  archiveId: Buffer,
): void {
  for (const [segment, generations] of [...listing].reverse()) {
    const opened = openedIfIntact(files, dir, segment, generations);
    if (opened === undefined) continue;
    opened.file.close();
    if (opened.header.archiveId.equals(archiveId)) return;
    throw archiveError('log-damaged', {
      file: opened.path,
      segment,
      offset: 0,
      reason: 'diverged',
    });
  }
}

/**
 * Returns the bytes that a directory lacks of unsealed segments. A segment without a batch lacks nothing.
 *
 * @param expected the commit that the catalog has reached, if there is a catalog
 * @throws `log-diverged` if that is a commit of another log
 */
export function missingBytes(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
  { hot, closed = [], commit }: LogEnd,
  expected: ExpectedCommit | undefined,
): MissingBytes[] {
  const unsealed = [...closed, hot];
  for (const { previous } of unsealed) checkExpected(previous, expected, logFolder(dir));
  return unsealed.flatMap((one, index) => {
    const last = unsealed[index + 1]?.previous ?? commit;
    const generations = listing.get(one.segment) ?? [];
    const { segment, offset: until } = one;
    const lacks = (what: MissingBytes['what'], from: number, after: ChainState) =>
      from === until && what === 'end' ? [] : [{ what, segment, from, until, after }];
    const whole = () => lacks('segment', SEGMENT_HEADER_BYTES, one.previous);
    if (generations.length === 0) return until === SEGMENT_HEADER_BYTES ? [] : whole();
    // A sealed file is read by ordinals and cannot be appended to.
    if (one === hot && generations.some((generation) => generation > 1)) return whole();
    try {
      return withSegment(files, dir, segment, generations, (opened) => {
        const reached = verified(opened, one, expected?.number);
        if (reached === undefined) return whole();
        const { chain, ordinal, offset, seen } = reached;
        if (chain.number < last.number && offset < until && opened.sealed === undefined) {
          return lacks('end', offset, chain);
        }
        const same =
          chain.number === last.number && chain.hash === last.hash && ordinal === one.ordinal;
        if (!same || (opened.sealed === undefined && offset !== until)) return whole();
        // Only now are these known to be commits of this log.
        if (seen !== undefined) checkExpected(seen, expected, opened.path);
        return [];
      });
    } catch (error) {
      // No intact header, or unreadable bytes.
      if (hasCode(error, 'log-damaged')) return whole();
      throw error;
    }
  });
}

/**
 * Returns how far a segment's batches are undamaged, up to its known end or the first batch beyond. Undefined if it
 * does not start as expected, or a batch of another chain follows.
 *
 * @param wanted number of a commit to return if found
 */
function verified(
  opened: OpenSegment,
  { previous, offset: until }: UnsealedSegment,
  wanted: number | undefined,
) {
  const { previousNumber, previousHash } = opened.header;
  if (previousNumber !== previous.number || previousHash !== previous.hash) return undefined;
  let reached = { offset: SEGMENT_HEADER_BYTES, ordinal: 0, chain: previous };
  let seen: ChainState | undefined;
  for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    if (item.problems.some(({ reason }) => reason === 'chain' || reason === 'order')) {
      return undefined;
    }
    if (item.problems.length > 0) break;
    if (opened.sealed === undefined && reached.offset >= until) break;
    const { number, hash, ordinal } = item.commit;
    reached = { offset: item.end, ordinal: ordinal + 1, chain: { number, hash } };
    if (number === wanted) seen = reached.chain;
  }
  return { ...reached, seen };
}

function openedIfIntact(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): OpenSegment | undefined {
  try {
    return openInForce(files, dir, segment, generations);
  } catch (error) {
    if (hasCode(error, 'log-damaged')) return undefined;
    throw error;
  }
}

/** Batches in memory, as in generation 1 of their segment, with their valid position. */
interface LooseBatches {
  readonly bytes: Buffer;
  readonly space: RecordSpace;
  /** Position of the first record. */
  readonly at: Standing;
  /** The commit before the first batch. */
  readonly after: ChainState;
}

/**
 * Returns the commits of batches in memory. Verifies every byte: records, payload hashes and the chain.
 *
 * @param origin name of the source, for errors
 * @throws `log-damaged` unless the bytes are exactly a sequence of intact batches
 */
export function provenCommits(origin: string, { bytes, space, at, after }: LooseBatches) {
  const { segment } = space;
  const name = { segment, generation: 1 };
  const header = { ...space, ...name, previousNumber: after.number, previousHash: after.hash };
  const file = {
    size: () => at.offset + bytes.length,
    read: (target: Uint8Array, position: number) => {
      const from = position - at.offset;
      const piece = bytes.subarray(from, from + target.length);
      target.set(piece);
      return piece.length;
    },
  };
  const reading = { digest: true };
  /** `end` is the position of the next record. */
  const commits: (ChainState & { readonly end: Standing })[] = [];
  const read = { file, name, header, sealed: undefined };
  for (const item of segmentBatches(read, reading, () => undefined, at)) {
    const [problem] = item.problems;
    if (problem !== undefined || item.what === 'remainder') {
      const { offset, reason } = problem ?? { offset: at.offset, reason: 'bytes' };
      throw archiveError('log-damaged', { file: origin, segment, offset, reason });
    }
    const { number, hash, ordinal } = item.commit;
    commits.push({ number, hash, end: { offset: item.end, ordinal: ordinal + 1 } });
  }
  return commits;
}
