import { createHash } from 'node:crypto';
import { archiveError } from '../archive/errors.ts';
import { CODEC, genesisHash, SEGMENT_BYTES } from '../archive/format.ts';
import { verifyLooseBatches } from '../archive/recovery.ts';
import type { Outcome } from '../registry/outcome.ts';
import type { StoredBatch, StoredCover } from '../registry/reading.ts';
import { readTailPart, type TailPart } from '../registry/tail-part.ts';
import { coverChunk, type Range, type Uploaded } from '../registry/uploads.ts';
import type { HeldArchive } from './held-archive.ts';
import type { ObjectNames } from './object-names.ts';
import { deflated, inflated, MOST_BATCH_BYTES } from './packing.ts';
import { type Uploading, uploadObject } from './uploads.ts';

/** Bytes of commits in one chunk, unless the first one alone has more: what is in memory at a time is three times that. */
const CHUNK_RAW_BYTES = 16 * 1024 * 1024;

/** A batch begins in the next segment once one has reached its size. */
const MOST_SEGMENT_BYTES = SEGMENT_BYTES + MOST_BATCH_BYTES;

/** A chunk that is to be uploaded: the bytes of commits, one after the other as in their segment, deflated. */
export interface ChunkContent extends Range {
  readonly kind: 'chunk';
  readonly logId: Buffer;
  /** How many purges were decided when it was made. */
  readonly purges: number;
  readonly bytes: Buffer;
}

/** Puts a chunk into the object store, and reads it back. */
export type UploadChunk = (content: ChunkContent) => Promise<Outcome<{ uploaded: Uploaded }>>;

/**
 * Makes a chunk of the first commits of a segment that are in the tail. Commits with purged records are in no chunk.
 *
 * @param mostRawBytes of the commits; the first one is in the chunk in any case
 * @returns undefined if there is nothing to make one of
 * @throws `log-damaged` if the tail does not have what was committed; the errors of the registry
 */
export async function makeChunk(
  { registry, lease: { archive } }: HeldArchive,
  segment: number,
  mostRawBytes: number = CHUNK_RAW_BYTES,
): Promise<ChunkContent | undefined> {
  const part = await readTailPart(registry, archive, segment, mostRawBytes);
  const [first] = part?.batches ?? [];
  const last = part?.batches.at(-1);
  if (part === undefined || first === undefined || last === undefined) return undefined;
  const raw = Buffer.concat(await Promise.all(part.batches.map((batch) => rawBatch(batch))));
  proveSame(part, first, raw);
  return {
    ...{ kind: 'chunk', logId: part.logId, purges: part.purges, bytes: await deflated(raw) },
    ...{ first: first.number, last: last.number, lastHash: last.hash },
    ...{ segment, generation: 1, at: first.at },
  };
}

/**
 * Uploads a chunk, and lets it hold its commits instead of the tail. An object that covers nothing afterwards waits for
 * its collection; its commits are then still in the tail, and another chunk can be made of them.
 *
 * @throws outcome-unknown: the chunk covers its commits, or will, or never does; what `upload` throws; the errors of the
 *   registry
 */
export async function storeChunk(
  held: HeldArchive,
  content: ChunkContent,
  upload: UploadChunk,
): Promise<Outcome> {
  const outcome = await upload(content);
  if (outcome.outcome === 'fenced') return outcome;
  return coverChunk(held.registry, held.lease, outcome.uploaded, content);
}

/** Uploads the bytes of a chunk, as `storeChunk` asks for it. Throws as `uploadObject`. */
export function chunkUpload(uploading: Uploading, names: ObjectNames): UploadChunk {
  return ({ bytes, purges, logId, segment, first, last, lastHash }) =>
    uploadObject(uploading, {
      ...{ kind: 'chunk', length: bytes.length, purges },
      sha256: createHash('sha256').update(bytes).digest(),
      name: (epoch) => names.chunk(segment, { first, last }, epoch),
      async *bytes() {
        yield bytes;
      },
      metadata: { logId, first, last, lastHash },
    });
}

/**
 * Returns the bytes of a batch as they stand in generation 1 of its segment.
 *
 * @throws `log-damaged`
 */
export async function rawBatch(batch: StoredBatch): Promise<Buffer> {
  const { number, segment, at: offset, codec, bytes, rawBytes } = batch;
  const raw =
    codec === CODEC.none
      ? bytes
      : codec === CODEC.zlib
        ? await inflated(bytes, rawBytes)
        : undefined;
  if (raw?.length === rawBytes) return raw;
  throw archiveError('log-damaged', {
    file: `commit ${number} of the tail`,
    segment,
    offset,
    reason: 'payload',
  });
}

/**
 * Returns the bytes of the commits in a chunk. They are verified as part of the log when that is opened.
 *
 * @param stored as the object store gave it: it may be anything
 * @param until the offset of what follows in its segment; undefined if that is not known
 * @throws `log-damaged`
 */
export async function rawChunk(
  { key, segment, at }: Pick<StoredCover, 'key' | 'segment' | 'at'>,
  stored: Buffer,
  until: number | undefined,
): Promise<Buffer> {
  const raw = await inflated(stored, (until ?? MOST_SEGMENT_BYTES) - at);
  const isWhole = until === undefined || raw?.length === until - at;
  if (raw !== undefined && isWhole) return raw;
  throw archiveError('log-damaged', { file: key, segment, offset: at, reason: 'payload' });
}

/** @throws `log-damaged` unless the bytes are the batches that the tail says they are, after the commit before them */
function proveSame({ logId, previousHash, batches }: TailPart, first: StoredBatch, raw: Buffer) {
  const { segment, at: offset, firstOrdinal: ordinal } = first;
  const after = {
    number: first.number - 1,
    hash: previousHash?.toString('hex') ?? genesisHash(logId),
  };
  const space = { archiveId: logId, segment };
  const commits = verifyLooseBatches('the tail', {
    bytes: raw,
    space,
    at: { offset, ordinal },
    after,
  });
  const isSame =
    commits.length === batches.length &&
    batches.every(({ hash }, index) => commits[index]?.hash === hash.toString('hex'));
  if (!isSame)
    throw archiveError('log-damaged', { file: 'the tail', segment, offset, reason: 'chain' });
}
