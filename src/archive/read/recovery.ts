import { logDiverged, logEndsEarly } from '../../errors/archive.ts';
import {
  type FileLayer,
  type LogFile,
  openIfFile,
  readFully,
  writeAll,
} from '../files/file-layer.ts';
import { SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import {
  logFolder,
  parseTailName,
  type SegmentFile,
  segmentPath,
  tailPath,
} from '../format/layout.ts';
import type { Commit } from '../format/records.ts';
import type { ChainState } from './segment-batches.ts';
import { damageIn, type OpenSegment } from './segment-files.ts';
import { batchesToTheEnd } from './torn-batch.ts';

/** The commit up to which the catalog knows the log; number 0 when it knows nothing. */
export type ExpectedCommit = Pick<Commit, 'number' | 'hash'> & Partial<Pick<Commit, 'time'>>;

/** Bytes behind the last commit, which a writer that was cut off left: put aside in a file of their own. */
export interface TornTail {
  readonly segment: number;
  /** Where they began in the segment. */
  readonly offset: number;
  readonly bytes: number;
  /** The file that has them now. */
  readonly file: string;
}

/** Where the writer continues. */
export interface SegmentEnd {
  readonly chain: ChainState;
  /** Time of the last commit in the segment, or 0 when it has none. */
  readonly time: number;
  /** The ordinal of the next record. */
  readonly ordinal: number;
  /** Where the next record begins: what follows the last commit. */
  readonly offset: number;
}

/** Bytes of a tail that are moved at a time. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * Reads the last segment and distinguishes its torn tail from damage. The tail is what follows the last commit that is
 * valid anywhere in the segment, and a last batch that is torn (see `batchesToTheEnd`); an error before that commit is
 * damage.
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
 * Returns where a log reaches the commit that is expected.
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
  throw logEndsEarly({ file, expectedNumber, expectedHash, lastNumber });
}

/** @throws `log-diverged` when a commit has the number of the one that is expected, and another hash */
export function checkExpected(
  chain: ChainState,
  expected: ExpectedCommit | undefined,
  file: string,
): void {
  if (expected === undefined || expected.number === 0 || chain.number !== expected.number) return;
  if (chain.hash === expected.hash) return;
  throw logDiverged({
    file,
    number: chain.number,
    expectedHash: expected.hash,
    foundHash: chain.hash,
  });
}

/**
 * Moves what follows `end` out of the segment, which the caller holds open for writing: first durable in a file of its
 * own, then cut. Undefined when nothing follows.
 */
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

/** Moves a segment's file out of the log, durably, to where torn tails are kept. */
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
