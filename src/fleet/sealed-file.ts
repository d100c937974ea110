import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { archiveError } from '../archive/errors.ts';
import { type FileLayer, readFully } from '../archive/file-system.ts';
import { SEGMENT_HEADER_BYTES, type SegmentFile, segmentPath } from '../archive/format.ts';
import { type OpenSegment, openSegment, segmentDamage } from '../archive/segment-files.ts';
import { type ChainState, segmentBatches } from '../archive/segment-reader.ts';
import type { Range } from '../registry/uploads.ts';

const PIECE_BYTES = 1024 * 1024;
/** Raw bytes handled before other work gets its turn: a few milliseconds of hashing. */
const TURN_BYTES = 4 * 1024 * 1024;

/** A sealed file that is intact. Its bytes stay what they are while it is open, whatever becomes of its name. */
export interface SealedFile {
  readonly archiveId: Buffer;
  /** All commits of its segment. */
  readonly range: Range;
  /** The commit before them, and the time of the last one, in milliseconds since 1970. */
  readonly previous: ChainState;
  readonly lastTime: number;
  readonly length: number;
  readonly sha256: Buffer;
  /** Returns whether the payload of a record of the segment was removed for good. */
  isPurged(ordinal: number): boolean;
  /** Yields all bytes from the first on, each time it is called. */
  bytes(): AsyncGenerator<Buffer>;
  close(): void;
}

/**
 * Opens a sealed file and reads all of it: every hash and the chain of its commits.
 *
 * @throws `log-damaged`; system errors
 */
export async function openSealed(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
): Promise<SealedFile> {
  const opened = openSegment(files, dir, name);
  const index = opened?.sealed?.index;
  if (opened === undefined || index === undefined) {
    opened?.file.close();
    const file = segmentPath(dir, name);
    throw archiveError('log-damaged', { file, segment: name.segment, offset: 0, reason: 'footer' });
  }
  try {
    const { range, lastTime } = await provenRange(opened);
    const { previousNumber: number, previousHash } = opened.header;
    const hash = createHash('sha256');
    for await (const piece of piecesOf(opened)) hash.update(piece);
    return {
      archiveId: opened.header.archiveId,
      range,
      previous: { number, hash: previousHash },
      lastTime,
      length: opened.file.size(),
      sha256: hash.digest(),
      isPurged: (ordinal) => index.isPurged(ordinal),
      bytes: () => piecesOf(opened),
      close: () => opened.file.close(),
    };
  } catch (error) {
    opened.file.close();
    throw error;
  }
}

async function provenRange(
  opened: OpenSegment,
): Promise<{ readonly range: Range; readonly lastTime: number }> {
  const { segment, generation } = opened.name;
  const first = opened.header.previousNumber + 1;
  let last = opened.header.previousNumber;
  let lastHash = opened.header.previousHash;
  let lastTime = 0;
  let turnAt = TURN_BYTES;
  for (const item of segmentBatches(opened, { digest: true, releases: true }, () => undefined)) {
    const [problem] = item.problems;
    if (problem !== undefined) throw segmentDamage(opened, problem.offset, problem.reason);
    if (item.what === 'remainder') throw segmentDamage(opened, item.offset, 'commit');
    const { commit } = item;
    [last, lastHash, lastTime] = [commit.number, commit.hash, commit.time];
    if (commit.offset < turnAt) continue;
    turnAt = commit.offset + TURN_BYTES;
    await nextTurn();
  }
  if (last < first) throw segmentDamage(opened, SEGMENT_HEADER_BYTES, 'commit');
  // Of all its commits, the first begins behind the header.
  const place = { segment, generation, at: SEGMENT_HEADER_BYTES };
  return { range: { ...place, first, last, lastHash: Buffer.from(lastHash, 'hex') }, lastTime };
}

async function* piecesOf(opened: OpenSegment): AsyncGenerator<Buffer> {
  const size = opened.file.size();
  for (let at = 0; at < size; at += PIECE_BYTES) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, size - at));
    if (readFully(opened.file, piece, at) < piece.length) throw segmentDamage(opened, at, 'bytes');
    if (at % TURN_BYTES === 0) await nextTurn();
    yield piece;
  }
}
