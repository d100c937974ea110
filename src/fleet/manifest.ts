import { genesisHash } from '../archive/format.ts';
import type { LogEnd, UnsealedSegment } from '../archive/recovery.ts';
import { verifyLooseBatches } from '../archive/recovery.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import type { StoredArchive, StoredBatch, StoredCover } from '../registry/reading.ts';
import { fleetArchiveError } from './errors.ts';

/** Consecutive commits of a segment that is not sealed, and what holds their bytes. */
export interface Piece {
  readonly first: number;
  readonly last: number;
  /** Of the last commit. */
  readonly hash: Buffer;
  readonly segment: number;
  /** Where it begins in generation 1 of the segment. */
  readonly at: number;
  /** Where it ends; undefined for a chunk whose successor is in another segment. */
  readonly until: number | undefined;
  readonly held: { readonly by: 'chunk'; readonly cover: StoredCover } | HeldByTail;
}

interface HeldByTail {
  readonly by: 'tail';
  readonly batch: StoredBatch;
}

/** What an archive consists of, by what the registry says. */
export interface Manifest {
  /** The sealed file of each segment that has one. */
  readonly sealed: ReadonlyMap<number, StoredCover>;
  /** What the other segments consist of, in the order of the log. */
  readonly pieces: readonly Piece[];
}

/**
 * Returns what an archive consists of.
 *
 * @throws manifest-damaged unless covers and tail are every commit up to the head once, and in order
 */
export function manifestOf({ head, covers, tail }: StoredArchive): Manifest {
  const held = [...covers.map(ofCover), ...tail.map(ofBatch)].toSorted((a, b) => a.first - b.first);
  const damaged = (commit: number, problem: 'missing' | 'twice' | 'place' | 'end') =>
    fleetArchiveError('manifest-damaged', { archive: head.archive, commit, problem });
  let next = 1;
  let segment = 1;
  for (const one of held) {
    if (one.first > next) throw damaged(next, 'missing');
    if (one.first < next) throw damaged(one.first, 'twice');
    if (one.segment < segment || one.segment > head.hotSegment) throw damaged(one.first, 'place');
    next = one.last + 1;
    segment = one.segment;
  }
  if (next <= head.headNumber) throw damaged(next, 'missing');
  const last = held.at(-1);
  if (next > head.headNumber + 1 || (last !== undefined && !last.hash.equals(head.headHash))) {
    throw damaged(next - 1, 'end');
  }
  return {
    sealed: new Map(covers.filter(isSealed).map((cover) => [cover.segment, cover])),
    pieces: held
      .filter((one) => one.held.by === 'tail' || !isSealed(one.held.cover))
      .map((one, index, all) => ({ ...one, until: one.until ?? endOf(one, all[index + 1], head) })),
  };
}

function isSealed({ generation }: StoredCover): boolean {
  return generation > 1;
}

function ofCover(cover: StoredCover): Piece {
  const { first, last, lastHash: hash, segment, at } = cover;
  return { first, last, hash, segment, at, until: undefined, held: { by: 'chunk', cover } };
}

function ofBatch(batch: StoredBatch): Piece {
  const { number, hash, segment, at, rawBytes } = batch;
  const until = at + rawBytes;
  return { first: number, last: number, hash, segment, at, until, held: { by: 'tail', batch } };
}

function endOf(
  { segment }: Piece,
  next: Piece | undefined,
  { hotSegment, hotOffset }: StoredArchive['head'],
): number | undefined {
  if (next?.segment === segment) return next.at;
  return segment === hotSegment ? hotOffset : undefined;
}

/**
 * Returns the end of the log. Segments that are closed and not sealed are read for it: what they end with is not in the
 * registry.
 *
 * @param rawOf reads the bytes of a piece
 * @throws `log-damaged` if the bytes of a closed segment are not its commits; what `rawOf` throws
 */
export async function logEndOf(
  stored: Pick<StoredArchive, 'head' | 'logId' | 'covers' | 'tail'>,
  { pieces }: Manifest,
  rawOf: (piece: Piece) => Promise<Buffer>,
): Promise<LogEnd> {
  const { head, logId } = stored;
  const closed: UnsealedSegment[] = [];
  for (const segment of new Set(pieces.map((piece) => piece.segment))) {
    if (segment === head.hotSegment) continue;
    const own = pieces.filter((piece) => piece.segment === segment);
    const previous = commitBefore(stored, segment);
    let end = { offset: own[0]?.at ?? 0, ordinal: 0 };
    let after = previous;
    for (const piece of own) {
      const space = { archiveId: logId, segment };
      const bytes = await rawOf(piece);
      const commits = verifyLooseBatches('the registry', { bytes, space, at: end, after });
      const last = commits.at(-1);
      if (last === undefined) continue;
      ({ end } = last);
      after = { number: last.number, hash: last.hash };
    }
    closed.push({ segment, previous, ...end });
  }
  return {
    archiveId: logId,
    commit: {
      ...{ number: head.headNumber, hash: head.headHash.toString('hex'), time: head.headTime },
    },
    hot: {
      segment: head.hotSegment,
      previous: { number: head.hotPrevious, hash: head.hotPreviousHash.toString('hex') },
      offset: head.hotOffset,
      ordinal: head.hotOrdinal,
    },
    closed,
  };
}

/** Returns the last commit before a segment, by what the registry says. */
function commitBefore(
  { covers, tail, logId }: Pick<StoredArchive, 'covers' | 'tail' | 'logId'>,
  segment: number,
): ChainState {
  const ends = [
    ...covers.map(({ segment: of, last, lastHash }) => ({ of, number: last, hash: lastHash })),
    ...tail.map(({ segment: of, number, hash }) => ({ of, number, hash })),
  ].filter(({ of }) => of < segment);
  const last = ends.toSorted((a, b) => b.number - a.number)[0];
  return last === undefined
    ? { number: 0, hash: genesisHash(logId) }
    : { number: last.number, hash: last.hash.toString('hex') };
}
