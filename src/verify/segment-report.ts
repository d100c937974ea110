import type { SegmentFile } from '../archive/format/layout.ts';
import type { Position } from '../archive/format/records.ts';
import type { ChainState } from '../archive/read/segment-batches.ts';
import type { SettledCounts } from '../catalog/settled-rows.ts';
import type { DamageReason } from '../errors/archive.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';
import type { SegmentDamage } from './findings.ts';

/** One file of the log to be read from its first byte to its last. Plain data: it may go to another thread. */
export interface SegmentJob {
  readonly dir: string;
  readonly segment: number;
  /** The generation to read; default the one in force. */
  readonly generation?: number;
  /** True for the last segment of the log: what follows its last commit is unfinished work, not damage. */
  readonly last: boolean;
  /** The highest commit number that a catalog or checkpoint has seen: errors up to it are damage, wherever they are. */
  readonly seen: number;
  /** Compare every SHA-256 and rebuild every message; otherwise CRCs have to do. */
  readonly full: boolean;
  /** Compare messages with the catalog's rows at once, up to this commit; see `Settling`. Default: none. */
  readonly settleUpTo?: number;
}

/** Messages to be rebuilt from wherever their bytes are. Plain data, like the other. */
export interface MessagesJob {
  readonly dir: string;
  /** Undefined where a message's position is unknown: it fails. */
  readonly messages: ReadonlyMap<MessageId, Position | undefined>;
  readonly blobs: ReadonlyMap<BlobHash, Position>;
}

/** What a thread is asked for, one at a time. */
export type ThreadJob =
  | { readonly what: 'segment'; readonly job: SegmentJob }
  | { readonly what: 'messages'; readonly job: MessagesJob }
  | { readonly what: 'structure' | 'contradictions'; readonly dir: string }
  | { readonly what: 'intact'; readonly file: FileToProve };

/** A file of a segment, at whatever path it is. */
export interface FileToProve extends SegmentFile {
  readonly path: string;
  readonly sealed: boolean;
}

/** What reading one file of the log gave, in the order of the file. */
export type SegmentReport =
  /** First, where the file could be opened: what its header says, and so whether it follows on what was read before. */
  | {
      readonly what: 'begin';
      readonly archiveId: string;
      /** The commit that the segment's header names. */
      readonly before: ChainState;
      readonly generation: number;
    }
  /** See `unpackBatches`. */
  | { readonly what: 'batches'; readonly segment: number; readonly packed: string }
  | { readonly what: 'damage'; readonly damage: SegmentDamage }
  | {
      readonly what: 'tail';
      readonly segment: number;
      readonly offset: number;
      readonly bytes: number;
    }
  /** Rebuilt from its recipe the message is not what it should be. */
  | {
      readonly what: 'unsound';
      readonly message: MessageId;
      readonly reason: DamageReason | 'hash';
    }
  /** The message needs bytes that are elsewhere in the log. */
  | {
      readonly what: 'deferred';
      readonly message: MessageId;
      readonly blobs: readonly BlobHash[];
    }
  /** Last, where the file could be opened. */
  | {
      readonly what: 'end';
      readonly after: ChainState;
      readonly records: number;
      readonly messages: number;
      /** Bytes of the raw sources of its messages, and of the file. */
      readonly rawBytes: number;
      readonly fileBytes: number;
      readonly settled: SettledCounts;
    };
