import { dirname } from 'node:path';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { diskFull, logSyncFailed, logWriteFailed } from './errors.ts';
import { createOrReplace, type FileLayer, type LogFile, writeAll } from './file-system.ts';
import {
  encodeSegmentHeader,
  logFolder,
  SEGMENT_HEADER_BYTES,
  segmentPath,
  temporaryPath,
} from './format.ts';
import type { ChainState } from './segment-reader.ts';

/** The segment being written, and its durable length. */
export interface HotSegment {
  readonly file: LogFile;
  readonly path: string;
  readonly segment: number;
  /** Offset of the next batch. Later bytes, if any, are left from a failed write. */
  readonly offset: number;
  readonly ordinal: number;
}

/** Creates a segment durably. It is renamed only when complete, so a segment cannot have a torn header. */
export async function createSegment(
  files: FileLayer,
  dir: string,
  archiveId: Buffer,
  segment: number,
  { number, hash }: ChainState,
): Promise<HotSegment> {
  const path = segmentPath(dir, { segment, generation: 1 });
  const temporary = temporaryPath(path);
  const header = encodeSegmentHeader({
    archiveId,
    segment,
    generation: 1,
    previousNumber: number,
    previousHash: hash,
  });
  const file = await writing(temporary, header.length, async () => {
    const created = await createOrReplace(files, temporary);
    try {
      await writeAll(created, header, 0);
      return created;
    } catch (error) {
      created.close();
      // The next attempt replaces a file that cannot be removed now.
      await files.remove(temporary).catch(() => undefined);
      throw error;
    }
  });
  try {
    await syncing(path, () => file.datasync());
    await writing(path, 0, () => files.rename(temporary, path));
    await syncing(path, () => files.syncFolder(logFolder(dir)));
  } catch (error) {
    file.close();
    throw error;
  }
  return { file, path, segment, offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
}

/**
 * Writes a log file under a temporary name, makes it durable, checks it, and renames it. A kill at any moment leaves
 * the previous state. A failure, or a check that returns false, removes the temporary file.
 *
 * @param bytes required on the disk, for the error
 * @returns the result of `write`
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`; errors of `write` and `check`
 */
export async function publish<T>(
  files: FileLayer,
  path: string,
  bytes: number,
  steps: {
    readonly write: (target: LogFile) => Promise<T>;
    /** Reads the file back under its temporary name. */
    readonly check: (temporary: string, written: T) => unknown;
  },
): Promise<T> {
  const temporary = temporaryPath(path);
  try {
    const written = await writing(temporary, bytes, async () => {
      const target = await createOrReplace(files, temporary);
      try {
        const result = await steps.write(target);
        await syncing(temporary, () => target.datasync());
        return result;
      } finally {
        target.close();
      }
    });
    if ((await steps.check(temporary, written)) === false) {
      await files.remove(temporary);
      return written;
    }
    await writing(path, 0, () => files.rename(temporary, path));
    await syncing(path, () => files.syncFolder(dirname(path)));
    return written;
  } catch (error) {
    // The next attempt replaces a file that cannot be removed now; the next opening for writing removes it.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
}

/** Runs a write and converts its errors. @throws `disk-full`, `log-write-failed` */
export async function writing<T>(path: string, bytes: number, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof MailkeepError) throw error;
    const full = ['ENOSPC', 'EDQUOT'].includes(errnoName(error));
    throw full ? diskFull(path, bytes, error) : logWriteFailed(path, error);
  }
}

/** Runs a sync and converts its errors. @throws `log-sync-failed` */
export async function syncing(path: string, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    throw logSyncFailed(path, error);
  }
}

/** The file of the segment being written. Every method throws `disk-full`, `log-write-failed` or `log-sync-failed`. */
export class HotFile {
  #file: LogFile;
  #path: string;

  constructor(
    private readonly log: {
      readonly files: FileLayer;
      readonly dir: string;
      readonly archiveId: Buffer;
    },
    { file, path }: Pick<HotSegment, 'file' | 'path'>,
  ) {
    this.#file = file;
    this.#path = path;
  }

  get file(): LogFile {
    return this.#file;
  }

  get path(): string {
    return this.#path;
  }

  /** Writes bytes without syncing them. */
  async write(bytes: Buffer, offset: number): Promise<void> {
    await writing(this.#path, bytes.length, () => writeAll(this.#file, bytes, offset));
  }

  async sync(): Promise<void> {
    await syncing(this.#path, () => this.#file.datasync());
  }

  async cut(offset: number): Promise<void> {
    await writing(this.#path, 0, () => this.#file.truncate(offset));
  }

  /**
   * Creates the next segment's file durably, and closes this one.
   *
   * @param previous the last commit before it
   */
  async begin(segment: number, previous: ChainState): Promise<void> {
    const { files, dir, archiveId } = this.log;
    const fresh = await createSegment(files, dir, archiveId, segment, previous);
    this.#file.close();
    this.#file = fresh.file;
    this.#path = fresh.path;
  }

  close(): void {
    this.#file.close();
  }
}
