import { errnoName, hasCode, MailkeepError } from '../core/errors.ts';
import { archiveError } from './errors.ts';
import { type LogFile, writeAll } from './file-system.ts';
import type { Commit } from './format.ts';
import type { HotFile } from './hot-segment.ts';
import { convertSyncErrors, convertWriteErrors } from './hot-segment.ts';
import type { ChainState } from './segment-reader.ts';

export interface AppendedCommit extends Commit {
  readonly previousHash: string;
}

export interface AppendPosition {
  readonly segment: number;
  /** Offset of the batch's first record in generation 1 of the segment. */
  readonly offset: number;
  readonly ordinal: number;
  /** Ordinal of the first record after the commit record. */
  readonly nextOrdinal: number;
}

export interface NextSegment {
  readonly segment: number;
  readonly previous: ChainState;
}

/**
 * Makes batches durable. The writer calls one method at a time, in log order. It makes no further calls after a failure
 * other than `log-write-failed` or `disk-full`.
 */
export interface Durability {
  /**
   * Resolves once the batch is durable at its position.
   *
   * @param bytes as in generation 1 of the segment; their memory is reused once the promise settles
   * @throws `log-write-failed`, `disk-full` if the batch is not in the log; the caller can retry
   * @throws `log-fenced` and any other error if the batch may or may not be in the log
   */
  append(bytes: Buffer, committed: AppendedCommit, place: AppendPosition): Promise<void>;
  /** Closes the current segment and starts the next one. Throws the same errors as `append`. */
  roll(next: NextSegment): Promise<void>;
}

/** On a single local disk, a batch is durable once it is written and synced. */
export class LocalDurability implements Durability {
  constructor(private readonly hot: HotFile) {}

  async append(
    bytes: Buffer,
    _committed: AppendedCommit,
    { offset }: AppendPosition,
  ): Promise<void> {
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
  await convertWriteErrors(path, bytes.length, () => writeAll(file(), bytes, offset));
  await convertSyncErrors(path, () => file().datasync());
}

/** Keeps the local log as an unsynced copy of a remote one. The writer stops if the copy cannot be written. */
export class RemoteDurability implements Durability {
  constructor(
    private readonly hot: HotFile,
    private readonly remote: Durability,
  ) {}

  async append(bytes: Buffer, committed: AppendedCommit, place: AppendPosition): Promise<void> {
    await acknowledge(committed.number, () => this.remote.append(bytes, committed, place));
    await this.#copying(() => this.hot.write(bytes, place.offset));
  }

  async roll(next: NextSegment): Promise<void> {
    // Opening the log does not check the bytes of a closed segment, so they must be on disk by now.
    await this.hot.sync();
    await acknowledge(null, () => this.remote.roll(next));
    await this.#copying(() => this.hot.begin(next.segment, next.previous));
  }

  async #copying(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      const errno = error instanceof MailkeepError ? error.facts.errno : undefined;
      const facts = { file: this.hot.path, errno: String(errno ?? errnoName(error)) };
      throw archiveError('log-copy-failed', facts, error);
    }
  }
}

/** Treats a failure as an unknown outcome, unless the error guarantees that nothing happened. */
async function acknowledge(commit: number | null, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    const isCertain =
      hasCode(error, 'log-write-failed') ||
      hasCode(error, 'disk-full') ||
      hasCode(error, 'log-fenced');
    throw isCertain ? error : archiveError('log-fenced', { commit, reason: 'unknown' }, error);
  }
}
