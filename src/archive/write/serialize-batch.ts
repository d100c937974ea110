import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { commitHash, encodeCommit, Identities } from '../format/commit-record.ts';
import {
  CODEC,
  RECORD_HEADER_BYTES,
  type RecordSpace,
  writeRecordHeader,
} from '../format/record-header.ts';
import { type CommittedBatch, type FoldedRecord, RECORD_KIND } from '../format/records.ts';
import type { ChainState } from '../read/segment-batches.ts';
import type { Batch, PendingRecord } from './batch.ts';

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
