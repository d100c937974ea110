import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { BlobHash, MessageId } from '../core/types.ts';
import type { FileLayer } from './file-system.ts';
import {
  CODEC,
  canonicalJson,
  commitHash,
  encodeCommit,
  type Fact,
  type FoldedRecord,
  Identities,
  isFact,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  type RecordMeaning,
  type RecordSpace,
  writeRecordHeader,
} from './format.ts';
import { BLOB_BYTES } from './payload.ts';
import type { ChainState } from './segment-reader.ts';
import { splitSource, splitSourceFile } from './split-source.ts';

interface PendingRecord {
  readonly meaning: RecordMeaning;
  readonly payload: Buffer;
  /** SHA-256 of the payload. */
  readonly hash: Buffer;
}

export interface AddedSource {
  readonly id: MessageId;
  readonly size: number;
}

/** Reports whether a blob is durable in the archive and has not been purged. */
export type StoredCheck = (hash: string) => boolean;

/** Minimum size at which sealing can store a blob outside a block. */
const LARGE_BYTES = 64 * 1024;

const NOT_STORED: StoredCheck = () => false;

/**
 * A set of records that the writer commits together. The caller uses `messages`, `records` and `bytes` to limit a batch
 * to 128 messages, 4 MiB and 1 s. Sizes count raw bytes, so that batches are the same on every thread.
 */
export abstract class Batch {
  messages = 0;
  /** Total number of messages, facts and separately added blobs. */
  records = 0;
  bytes = 0;
  #state: 'open' | 'committing' | 'committed' = 'open';

  constructor(protected readonly files: FileLayer) {}

  /**
   * Adds a raw source of up to about 8 MiB, unless this batch already contains it. Each of its blobs is written once,
   * unless `isBlobStored` returns true at commit. The buffer is not retained.
   *
   * @param id the SHA-256 of `raw`; not verified, and a wrong value would make the message unreadable
   */
  abstract addSource(raw: Buffer, id: MessageId, isBlobStored?: StoredCheck): AddedSource;

  /** Adds up to 4 MiB of data that does not belong to a message, and returns its hash. */
  abstract addBlob(bytes: Buffer): BlobHash;

  /** @throws TypeError if a rebuild would be unable to read the fact */
  abstract addFact(fact: Fact): void;

  /** Adds a message whose record has already been built, unless this batch already contains it. */
  protected abstract addMessage(id: MessageId, size: number, payload: Buffer): void;

  /**
   * Adds a raw source of any size from a file. Its blobs go into separate batches, which `commitBlobs` must commit and
   * fold. The message's record is added last, and this batch must not be committed before then.
   */
  async addSourceFile(
    path: string,
    isBlobStored: StoredCheck,
    commitBlobs: (blobs: Batch) => Promise<unknown>,
  ): Promise<AddedSource> {
    let blobBatch = new LocalBatch(this.files);
    const flush = async (atLeast: number) => {
      if (blobBatch.records === 0 || blobBatch.bytes < atLeast) return;
      const full = blobBatch;
      blobBatch = new LocalBatch(this.files);
      await commitBlobs(full);
    };
    const writtenHashes = new Set<BlobHash>();
    const { id, size, payload } = await splitSourceFile(this.files, path, {
      blob: (hash, bytes) => {
        if (writtenHashes.has(hash) || isBlobStored(hash)) return;
        writtenHashes.add(hash);
        blobBatch.addNamedBlob(hash, bytes);
      },
      drain: () => flush(BLOB_BYTES),
    });
    await flush(0);
    this.addMessage(id, size, payload);
    return { id, size };
  }

  /** Called only by the writer. Nothing can be added after this call. */
  beginCommit(): void {
    this.requireOpen();
    this.#state = 'committing';
  }

  endCommit(outcome: 'committed' | 'failed'): void {
    this.#state = outcome === 'failed' ? 'open' : 'committed';
  }

  protected count(bytes: number): void {
    this.records += 1;
    this.bytes += RECORD_HEADER_BYTES + bytes;
  }

  protected requireOpen(): void {
    if (this.#state !== 'open') throw new Error(`this batch is ${this.#state}`);
  }
}

interface PendingBlob {
  readonly bytes: Buffer;
  /** The message that contains the blob. Undefined for separately added bytes, which are always written. */
  readonly of?: { readonly id: MessageId; readonly isBlobStored: StoredCheck };
}

/** A batch in this thread's memory. Splits each source into records as it is added. */
export class LocalBatch extends Batch {
  readonly #messageIds = new Set<MessageId>();
  readonly #blobs = new Map<BlobHash, PendingBlob>();
  readonly #sources: PendingRecord[] = [];
  readonly #facts: PendingRecord[] = [];

  addSource(raw: Buffer, id: MessageId, isBlobStored: StoredCheck = NOT_STORED): AddedSource {
    this.requireOpen();
    if (!this.#messageIds.has(id)) {
      const { payload, blobs } = splitSource(raw, id);
      for (const [hash, bytes] of blobs) {
        if (!this.#blobs.has(hash)) this.#blobs.set(hash, { bytes, of: { id, isBlobStored } });
      }
      this.#message(id, raw.length, payload, raw.length);
    }
    return { id, size: raw.length };
  }

  addBlob(bytes: Buffer): BlobHash {
    if (bytes.length > BLOB_BYTES) throw new RangeError('a blob holds at most 4 MiB');
    const hash = digest('sha256', bytes, 'hex');
    this.addNamedBlob(hash, bytes);
    return hash;
  }

  /** Adds a blob under its SHA-256. The blob is written even if it is already stored. */
  addNamedBlob(hash: BlobHash, bytes: Buffer): void {
    this.requireOpen();
    this.count(bytes.length);
    this.#blobs.set(hash, { bytes });
  }

  addFact(fact: Fact): void {
    if (!isFact(fact)) throw new TypeError(`a fact of the wrong shape: ${Object(fact).fact}`);
    this.addCheckedFact(fact);
  }

  addCheckedFact(fact: Fact): void {
    this.requireOpen();
    const payload = Buffer.from(canonicalJson(fact), 'utf8');
    this.count(payload.length);
    this.#facts.push({
      meaning: { kind: 'fact', fact },
      payload,
      hash: digest('sha256', payload, 'buffer'),
    });
  }

  addMessage(id: MessageId, size: number, payload: Buffer): void {
    this.requireOpen();
    if (!this.#messageIds.has(id)) this.#message(id, size, payload, payload.length);
  }

  /** Yields each blob that is written only if the archive lacks it, together with a message that contains it. */
  *unsureBlobs(): Iterable<readonly [hash: BlobHash, message: MessageId]> {
    for (const [hash, { of }] of this.#blobs) if (of !== undefined) yield [hash, of.id];
  }

  /**
   * Returns the records in log order: blobs, messages, facts. Large blobs come first, largest to smallest, so that
   * sealing can pack the adjacent small records into blocks. Omits blobs that have been stored in the meantime.
   */
  ordered(): PendingRecord[] {
    const largeBlobs: PendingRecord[] = [];
    const smallBlobs: PendingRecord[] = [];
    for (const [hash, { bytes, of }] of this.#blobs) {
      if (of?.isBlobStored(hash) === true) continue;
      (bytes.length >= LARGE_BYTES ? largeBlobs : smallBlobs).push({
        meaning: { kind: 'blob', hash, size: bytes.length },
        payload: bytes,
        hash: Buffer.from(hash, 'hex'),
      });
    }
    largeBlobs.sort((a, b) => b.payload.length - a.payload.length);
    return [...largeBlobs, ...smallBlobs, ...this.#sources, ...this.#facts];
  }

  #message(id: MessageId, size: number, payload: Buffer, cost: number): void {
    this.#messageIds.add(id);
    this.count(cost);
    this.messages += 1;
    this.#sources.push({
      meaning: { kind: 'message', id, size },
      payload,
      hash: digest('sha256', payload, 'buffer'),
    });
  }
}

export interface BatchPosition {
  readonly space: RecordSpace;
  readonly chain: ChainState;
  readonly time: number;
  /** Offset of the batch's first record. */
  readonly offset: number;
  readonly ordinal: number;
}

/** Buffer size for serialising a batch. A larger batch gets a temporary buffer. */
export const BATCH_BUFFER_BYTES = 9 * 1024 * 1024;

export function serializeBatch(batch: LocalBatch, place: BatchPosition, memory: Buffer) {
  const pending = batch.ordered();
  const bytes = pending.reduce((sum, { payload }) => sum + RECORD_HEADER_BYTES + payload.length, 0);
  const identities = new Identities();
  for (const record of pending) {
    identities.add(RECORD_KIND[record.meaning.kind], record.payload.length, record.hash);
  }
  const number = place.chain.number + 1;
  const hash = commitHash(place.chain.hash, number, place.time, identities);
  const commit = { number, time: place.time, hash };
  const commitPayload = encodeCommit({
    ...commit,
    previous: place.chain.hash,
    records: pending.length,
    ordinal: place.ordinal + pending.length,
    offset: place.offset + bytes,
  });
  const length = bytes + RECORD_HEADER_BYTES + commitPayload.length;
  const target = memory.length >= length ? memory : Buffer.allocUnsafeSlow(length);

  const records: FoldedRecord[] = [];
  let at = 0;
  for (const record of pending) {
    const offset = place.offset + at;
    records.push({
      ...record.meaning,
      position: {
        segment: place.space.segment,
        ordinal: place.ordinal + records.length,
        offset,
      },
    });
    at = put(target, at, RECORD_KIND[record.meaning.kind], record, place.space, offset);
  }
  const closing = { payload: commitPayload, hash: digest('sha256', commitPayload, 'buffer') };
  at = put(target, at, RECORD_KIND.commit, closing, place.space, place.offset + at);
  return {
    bytes: target.subarray(0, at),
    memory: target,
    committed: { commit, previousHash: place.chain.hash, records },
    nextOrdinal: place.ordinal + records.length + 1,
  };
}

function put(
  target: Buffer,
  at: number,
  kind: number,
  { payload, hash }: Pick<PendingRecord, 'payload' | 'hash'>,
  space: RecordSpace,
  offset: number,
): number {
  const header = {
    kind,
    codec: CODEC.none,
    flags: 0,
    rawLength: payload.length,
    storedLength: payload.length,
    hash,
    crc: crc32(payload),
  };
  writeRecordHeader(target, at, header, space, offset);
  payload.copy(target, at + RECORD_HEADER_BYTES);
  return at + RECORD_HEADER_BYTES + payload.length;
}
