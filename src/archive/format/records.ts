import type { BlobHash, MessageId } from '../../mail/words.ts';
import type { Fact } from './facts.ts';

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

/** One record as the catalog's fold wants it: bytes stay in the log, facts come parsed. */
export type FoldedRecord =
  | {
      readonly kind: 'blob';
      readonly hash: BlobHash;
      readonly size: number;
      readonly position: Position;
    }
  | {
      readonly kind: 'message';
      readonly id: MessageId;
      readonly size: number;
      readonly position: Position;
    }
  | { readonly kind: 'fact'; readonly fact: Fact; readonly position: Position };

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
