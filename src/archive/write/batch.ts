import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { canonicalJson, type Fact, isFact } from '../format/facts.ts';
import {
  CODEC,
  RECORD_HEADER_BYTES,
  type RecordSpace,
  writeRecordHeader,
} from '../format/headers.ts';
import { BLOB_BYTES } from '../format/recipe.ts';
import {
  type CommittedBatch,
  commitHash,
  encodeCommit,
  type FoldedRecord,
  Identities,
  RECORD_KIND,
  type RecordMeaning,
} from '../format/records.ts';
import type { ChainState } from '../read/segment-batches.ts';
import { splitSource, splitSourceFile } from './split-source.ts';

export interface PendingRecord {
  readonly meaning: RecordMeaning;
  readonly payload: Buffer;
  /** SHA-256 of the payload. */
  readonly hash: Buffer;
}

export interface AddedSource {
  readonly id: MessageId;
  /** Bytes of the raw source. */
  readonly size: number;
}

/** True when bytes of this hash are durable in the archive and were not purged since. */
export type IsStored = (hash: string) => boolean;

/** Blobs from this size on may get a place of their own when the segment is sealed. */
const LARGE_BYTES = 64 * 1024;

const NOT_STORED: IsStored = () => false;

/**
 * Records that belong together, gathered in memory until the writer commits them. Whoever gathers keeps to the limits of
 * a batch (128 messages, 8 MiB, 1 s) by looking at `messages` and `bytes`.
 */
export class Batch {
  /** Message records in it. */
  messages = 0;
  /** Records in it. */
  records = 0;
  /** Bytes it will take in the log. */
  bytes = 0;
  readonly #held = new Set<string>();
  readonly #largeBlobs: PendingRecord[] = [];
  readonly #smallBlobs: PendingRecord[] = [];
  readonly #sources: PendingRecord[] = [];
  readonly #facts: PendingRecord[] = [];
  #state: 'open' | 'committing' | 'committed' = 'open';

  constructor(private readonly files: FileLayer) {}

  /**
   * Adds a raw source that lies in memory (up to about 8 MiB), unless this batch has it. A blob is added once, and only
   * if `isBlobStored` does not know it. The buffer is not kept.
   *
   * @param id the SHA-256 of `raw`, which the caller has computed already to see whether the message is known. It is not
   *   computed again: a wrong one would make the message unreadable.
   */
  addSource(raw: Buffer, id: MessageId, isBlobStored: IsStored = NOT_STORED): AddedSource {
    if (!this.#hasMessage(id)) {
      const { payload, blobs } = splitSource(raw, id);
      for (const [hash, bytes] of blobs) {
        if (!isBlobStored(hash)) this.#addBlob(hash, bytes);
      }
      this.#addMessage(id, raw.length, payload);
    }
    return { id, size: raw.length };
  }

  /**
   * Adds a raw source of any size from a file, without ever holding it whole: its blobs go out in batches of their own,
   * which `commitBlobs` has to commit (and fold) before it resolves; the message's record joins this batch at the end.
   * Do not commit this batch before the promise has resolved.
   */
  async addSourceFile(
    path: string,
    isBlobStored: IsStored,
    commitBlobs: (blobs: Batch) => Promise<unknown>,
  ): Promise<AddedSource> {
    let side = new Batch(this.files);
    const flush = async (atLeast: number) => {
      if (side.records === 0 || side.bytes < atLeast) return;
      const full = side;
      side = new Batch(this.files);
      await commitBlobs(full);
    };
    const sent = new Set<BlobHash>();
    const { id, size, payload } = await splitSourceFile(this.files, path, {
      blob: (hash, bytes) => {
        if (sent.has(hash) || isBlobStored(hash)) return;
        sent.add(hash);
        side.#addBlob(hash, bytes);
      },
      drain: () => flush(BLOB_BYTES),
    });
    await flush(0);
    if (!this.#hasMessage(id)) this.#addMessage(id, size, payload);
    return { id, size };
  }

  /** Adds bytes that are no message's (at most 4 MiB), and returns their hash. */
  addBlob(bytes: Buffer): BlobHash {
    if (bytes.length > BLOB_BYTES) throw new RangeError('a blob holds at most 4 MiB');
    const hash = digest('sha256', bytes, 'hex');
    this.#addBlob(hash, bytes);
    return hash;
  }

  /** Adds a fact. It must be one that a rebuild will be able to read: anything else is a mistake of the caller. */
  addFact(fact: Fact): void {
    this.#requireOpen();
    if (!isFact(fact)) throw new TypeError(`a fact of the wrong shape: ${Object(fact).fact}`);
    const payload = Buffer.from(canonicalJson(fact), 'utf8');
    this.#count(payload);
    this.#facts.push({
      meaning: { kind: 'fact', fact },
      payload,
      hash: digest('sha256', payload, 'buffer'),
    });
  }

  /**
   * The records in the order of the log: blobs before the messages that need them, messages before the facts that speak
   * of them. Large blobs come first, the largest of them before others, so that the records that share blocks lie together
   * when the segment is sealed.
   */
  ordered(): PendingRecord[] {
    const large = this.#largeBlobs.toSorted((a, b) => b.payload.length - a.payload.length);
    return [...large, ...this.#smallBlobs, ...this.#sources, ...this.#facts];
  }

  /** For the writer: nothing can be added while a commit is under way, and nothing more once it is done. */
  beginCommit(): void {
    this.#requireOpen();
    this.#state = 'committing';
  }

  endCommit(outcome: 'committed' | 'failed'): void {
    this.#state = outcome === 'failed' ? 'open' : 'committed';
  }

  #hasMessage(id: MessageId): boolean {
    return this.#held.has(`message ${id}`);
  }

  #addBlob(hash: BlobHash, bytes: Buffer): void {
    this.#requireOpen();
    if (this.#held.has(hash)) return;
    this.#held.add(hash);
    this.#count(bytes);
    (bytes.length >= LARGE_BYTES ? this.#largeBlobs : this.#smallBlobs).push({
      meaning: { kind: 'blob', hash, size: bytes.length },
      payload: bytes,
      hash: Buffer.from(hash, 'hex'),
    });
  }

  #addMessage(id: MessageId, size: number, payload: Buffer): void {
    this.#requireOpen();
    this.#held.add(`message ${id}`);
    this.#count(payload);
    this.messages += 1;
    this.#sources.push({
      meaning: { kind: 'message', id, size },
      payload,
      hash: digest('sha256', payload, 'buffer'),
    });
  }

  #count(payload: Buffer): void {
    this.records += 1;
    this.bytes += RECORD_HEADER_BYTES + payload.length;
  }

  #requireOpen(): void {
    if (this.#state !== 'open') throw new Error(`this batch is ${this.#state}`);
  }
}

/** Where a batch will stand, and in which chain. */
export interface BatchPlace {
  readonly space: RecordSpace;
  readonly chain: ChainState;
  readonly time: number;
  /** Offset and ordinal of its first record. */
  readonly offset: number;
  readonly ordinal: number;
}

export interface SerializedBatch {
  /** A view of the memory that was handed in, or of larger memory to be used from now on. */
  readonly bytes: Buffer;
  readonly memory: Buffer;
  readonly committed: CommittedBatch;
  /** Ordinal of the record after the commit. */
  readonly nextOrdinal: number;
}

/** Lays a batch and its commit out as the bytes of the log. */
export function serializeBatch(batch: Batch, place: BatchPlace, memory: Buffer): SerializedBatch {
  const pending = batch.ordered();
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
    offset: place.offset + batch.bytes,
  });
  const length = batch.bytes + RECORD_HEADER_BYTES + commitPayload.length;
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
