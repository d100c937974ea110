import { hash as digest } from 'node:crypto';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import { canonicalJson, type Fact } from './facts.ts';
import { isCount, isHash, isObject, parseJson } from './json-shape.ts';

/** The kinds of records that carry something; the numbers are the bytes on disk. */
export const RECORD_KIND = { blob: 1, message: 2, fact: 3, commit: 4 } as const;
/**
 * Where a record is. Segment and ordinal (the how-many-th record of the segment, from 0) hold for ever: sealing
 * and purging keep them. `offset` is the byte offset in generation 1 of the segment's file, and serves only
 * while that unsealed file is the one in force; a sealed file's footer maps ordinals itself.
 */
export interface Position {
  readonly segment: number;
  readonly ordinal: number;
  readonly offset: number;
}

/** The end of a batch: everything before it is durable and belongs together. */
export interface Commit {
  readonly number: number;
  /** Milliseconds since the epoch, never earlier than the commit before. */
  readonly time: number;
  /** Lower-case hex SHA-256 over the previous commit's hash, number, time and the identities of the batch's records. */
  readonly hash: string;
}

/** What a record means to the catalog: bytes stay in the log, facts come parsed. */
export type RecordMeaning =
  | { readonly kind: 'blob'; readonly hash: BlobHash; readonly size: number }
  | { readonly kind: 'message'; readonly id: MessageId; readonly size: number }
  | { readonly kind: 'fact'; readonly fact: Fact };

/** One record as the catalog's fold wants it. */
export type FoldedRecord = RecordMeaning & { readonly position: Position };

/** A closed batch: what the writer hands to the fold live, and what a scan of the log yields for a rebuild. */
export interface CommittedBatch {
  readonly commit: Commit;
  readonly previousHash: string;
  readonly records: readonly FoldedRecord[];
}

/** One reader of bytes is enough for everybody above the archive: `locate` comes from the catalog. */
export interface Locator {
  blob(hash: BlobHash): Position | undefined;
  message(id: MessageId): Position | undefined;
}

/** Bytes of one record's identity in the input of a commit's hash: kind u8, raw length u32, SHA-256. */
export const IDENTITY_BYTES = 37;

const DOMAIN = Buffer.from('mailkeep commit 1\n', 'latin1');

/** What a commit record says. */
export interface CommitRecord extends Commit {
  readonly previous: string;
  /** How many records the batch has, the commit itself not counted. */
  readonly records: number;
  /** The commit's own ordinal in its segment and offset in generation 1, so that a reader that lost count finds them again. */
  readonly ordinal: number;
  readonly offset: number;
}

/** Gathers the identities of a batch's records, in order. */
export class Identities {
  #bytes = Buffer.allocUnsafe(64 * IDENTITY_BYTES);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(kind: number, rawLength: number, hash: Buffer): void {
    const at = this.#count * IDENTITY_BYTES;
    if (at + IDENTITY_BYTES > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(this.#bytes.length * 2);
      this.#bytes.copy(grown);
      this.#bytes = grown;
    }
    this.#bytes[at] = kind;
    this.#bytes.writeUInt32LE(rawLength, at + 1);
    hash.copy(this.#bytes, at + 5);
    this.#count += 1;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#count * IDENTITY_BYTES);
  }
}

/**
 * The hash of a commit: SHA-256 over `mailkeep commit 1\n`, the previous commit's hash (32 bytes), number (u64), time
 * (u64, milliseconds) and the identities of the batch's records in order; little-endian. Codec and position are left
 * out on purpose: recompressing or purging a record keeps the chain valid.
 */
export function commitHash(
  previous: string,
  number: number,
  time: number,
  identities: Identities,
): string {
  const head = Buffer.allocUnsafe(DOMAIN.length + 48);
  DOMAIN.copy(head, 0);
  head.write(previous, DOMAIN.length, 'hex');
  head.writeBigUInt64LE(BigInt(number), DOMAIN.length + 32);
  head.writeBigUInt64LE(BigInt(time), DOMAIN.length + 40);
  return digest('sha256', Buffer.concat([head, identities.bytes()]), 'hex');
}

export function encodeCommit(commit: CommitRecord): Buffer {
  return Buffer.from(canonicalJson(commit), 'utf8');
}

/** Undefined when the payload is not a commit's. */
export function decodeCommit(payload: Buffer): CommitRecord | undefined {
  const value = parseJson(payload.toString('utf8'));
  if (!isObject(value)) return undefined;
  const { number, time, hash, previous, records, ordinal, offset } = value;
  return isCount(number) &&
    isCount(time) &&
    isCount(records) &&
    isCount(ordinal) &&
    isCount(offset) &&
    isHash(hash) &&
    isHash(previous)
    ? { number, time, hash, previous, records, ordinal, offset }
    : undefined;
}
