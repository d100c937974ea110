import { hasCode } from '../core/errors.ts';
import { archiveError, logCopyFailed } from './errors.ts';
import { type LogFile, writeAll } from './file-system.ts';
import type { Commit } from './format.ts';
import type { HotFile } from './hot-segment.ts';
import { syncing, writing } from './hot-segment.ts';
import type { ChainState } from './segment-reader.ts';

/** The commit that closes a batch, and the hash of the one before it. */
export interface AppendedCommit extends Commit {
  readonly previousHash: string;
}

/** Where a batch stands in the log. */
export interface AppendPlace {
  readonly segment: number;
  /** Of its first record, in generation 1 of the segment. */
  readonly offset: number;
  /** Of its first record. */
  readonly ordinal: number;
  /** Of the record after its commit. */
  readonly nextOrdinal: number;
}

/** A segment that is begun, and the commit before its first. */
export interface NextSegment {
  readonly segment: number;
  readonly previous: ChainState;
}

/**
 * What makes a batch durable: the moment at which a commit has happened. The writer asks for one act at a time, in the
 * order of the log, and asks for nothing more after an act that failed with anything but `log-write-failed` or
 * `disk-full`.
 */
export interface Durability {
  /**
   * Resolves once the batch is durable at its place.
   *
   * @param bytes as they stand in generation 1 of the segment; their memory is reused once the promise has settled
   * @throws `log-write-failed`, `disk-full`: nothing of the batch is in the log, now or later; it may be offered again
   * @throws `log-fenced` and anything else: nobody knows whether it is in the log
   */
  append(bytes: Buffer, committed: AppendedCommit, place: AppendPlace): Promise<void>;
  /** Closes the segment that is written to and begins the next one, which has no batch yet. Throws as `append` does. */
  roll(next: NextSegment): Promise<void>;
}

/** One local disk: a batch is durable when it was written and synced. */
export class LocalDurability implements Durability {
  constructor(private readonly hot: HotFile) {}

  async append(bytes: Buffer, _committed: AppendedCommit, { offset }: AppendPlace): Promise<void> {
    await writeDurably(this.hot.path, () => this.hot.file, bytes, offset);
  }

  async roll({ segment, previous }: NextSegment): Promise<void> {
    await this.hot.begin(segment, previous);
  }
}

/**
 * Writes a batch with one write and one fdatasync.
 *
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function writeDurably(
  path: string,
  file: () => LogFile,
  bytes: Buffer,
  offset: number,
): Promise<void> {
  await writing(path, bytes.length, () => writeAll(file(), bytes, offset));
  await syncing(path, () => file().datasync());
}

/**
 * Another place, of which the local log is a copy: what was made durable there is written here afterwards, without a sync.
 * A copy that cannot be written ends the writer, since nothing can be read from it any more that was promised.
 */
export class DurabilityElsewhere implements Durability {
  constructor(
    private readonly hot: HotFile,
    private readonly elsewhere: Durability,
  ) {}

  async append(bytes: Buffer, committed: AppendedCommit, place: AppendPlace): Promise<void> {
    await acknowledged(committed.number, () => this.elsewhere.append(bytes, committed, place));
    await this.#copying(() => this.hot.write(bytes, place.offset));
  }

  async roll(next: NextSegment): Promise<void> {
    // A closed segment is not compared with the head when the log is opened, so its bytes have to be on the disk.
    await this.hot.sync();
    await acknowledged(null, () => this.elsewhere.roll(next));
    await this.#copying(() => this.hot.begin(next.segment, next.previous));
  }

  async #copying(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      throw logCopyFailed(this.hot.path, error);
    }
  }
}

/** Takes every failure that does not promise that nothing happened for one of which nobody knows. */
async function acknowledged(commit: number | null, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    const certain =
      hasCode(error, 'log-write-failed') ||
      hasCode(error, 'disk-full') ||
      hasCode(error, 'log-fenced');
    throw certain ? error : archiveError('log-fenced', { commit, reason: 'unknown' }, error);
  }
}
