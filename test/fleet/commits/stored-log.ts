import { genesisHash, SEGMENT_HEADER_BYTES } from '../../../src/archive/format.ts';
import type { LogEnd, MissingBytes, UnsealedSegment } from '../../../src/archive/recovery.ts';
import { verifyLooseBatches } from '../../../src/archive/recovery.ts';
import type { ChainState } from '../../../src/archive/segment-reader.ts';
import { rawBatch, rawChunk } from '../../../src/fleet/chunks.ts';
import { readArchive, type StoredArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';

/** The log of an archive, put together from what the fleet stores. */
export interface StoredLog {
  readonly stored: StoredArchive;
  readonly end: LogEnd;
  /** The bytes of each segment behind its header. */
  readonly segments: ReadonlyMap<number, Buffer>;
  readonly commits: readonly ChainState[];
}

/** Reads the log of an archive from tail and chunks. @throws `log-damaged`, and if they do not end where the head says */
export async function storedLog(
  registry: Registry,
  archive: number,
  objects: ReadonlyMap<string, Buffer>,
): Promise<StoredLog> {
  const stored = await readArchive(registry, archive);
  if (stored === undefined) throw new Error('there is no such archive');
  const { head, logId } = stored;
  let chain: ChainState = { number: 0, hash: genesisHash(logId) };
  const commits: ChainState[] = [];
  const segments = new Map<number, Buffer>();
  const unsealed: UnsealedSegment[] = [];
  for (let segment = 1; segment <= head.hotSegment; segment += 1) {
    const bytes = await bytesOf(stored, segment, objects);
    const space = { archiveId: logId, segment };
    const at = { offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
    const found = verifyLooseBatches(`segment ${segment}`, { bytes, space, at, after: chain });
    unsealed.push({ segment, previous: chain, ...(found.at(-1)?.end ?? at) });
    segments.set(segment, bytes);
    commits.push(...found);
    chain = commits.at(-1) ?? chain;
  }
  const hot = unsealed.at(-1);
  const isSame =
    chain.number === head.headNumber &&
    chain.hash === head.headHash.toString('hex') &&
    hot?.offset === head.hotOffset &&
    hot.ordinal === head.hotOrdinal;
  if (!isSame) throw new Error('what is stored does not end at the head');
  const commit = { ...chain, time: head.headTime };
  const end = { archiveId: logId, commit, hot, closed: unsealed.slice(0, -1) };
  return { stored, end, segments, commits };
}

async function bytesOf(
  { head, covers, tail }: StoredArchive,
  segment: number,
  objects: ReadonlyMap<string, Buffer>,
): Promise<Buffer> {
  const pieces = [
    ...covers.map((cover) => ({ ...cover, is: 'chunk' as const })),
    ...tail.map((batch) => ({ ...batch, is: 'batch' as const, first: batch.number })),
  ]
    .filter((piece) => piece.segment === segment)
    .toSorted((a, b) => a.first - b.first);
  const raw: Buffer[] = [];
  for (const [index, piece] of pieces.entries()) {
    const hotEnd = segment === head.hotSegment ? head.hotOffset : undefined;
    const until = pieces[index + 1]?.at ?? hotEnd;
    if (piece.is === 'batch') raw.push(await rawBatch(piece));
    else raw.push(await rawChunk(piece, objects.get(piece.key) ?? Buffer.alloc(0), until));
  }
  return Buffer.concat(raw);
}

/** Returns what a copy of a log lacks, in pieces that end anywhere. */
export function* supply(
  { segments }: StoredLog,
  { segment, from, until }: MissingBytes,
): Generator<Buffer> {
  const [first, end] = [from - SEGMENT_HEADER_BYTES, until - SEGMENT_HEADER_BYTES];
  const bytes = (segments.get(segment) ?? Buffer.alloc(0)).subarray(first, end);
  for (let at = 0; at < bytes.length; at += 7_777) yield bytes.subarray(at, at + 7_777);
}
