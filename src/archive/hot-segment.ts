import { dirname } from 'node:path';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { diskFull, logSyncFailed, logWriteFailed } from './errors.ts';
import { createOrReplace, type FileLayer, type LogFile, writeAll } from './file-system.ts';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentPath, temporaryPath } from './format.ts';
import type { ChainState } from './segment-reader.ts';

export interface HotSegment {
  readonly file: LogFile;
  readonly path: string;
  readonly segment: number;
  /** Offset of the next batch. A failed write can leave bytes beyond it. */
  readonly offset: number;
  readonly ordinal: number;
}

/** Creates a segment durably. The file is renamed only once complete, so a segment never has a torn header. */
export async function createSegment(
  files: FileLayer,
  dir: string,
  archiveId: Buffer,
  segment: number,
  { number, hash }: ChainState,
): Promise<HotSegment> {
  const path = segmentPath(dir, { segment, generation: 1 });
  const previous = { previousNumber: number, previousHash: hash };
  const header = encodeSegmentHeader({ archiveId, segment, generation: 1, ...previous });
  const opened: LogFile[] = [];
  try {
    await publishFile(files, path, header.length, {
      write: (target) => writeAll(target, header, 0),
      // Opened before the rename, after which an error must not promise that nothing was written.
      check: async (temporary) => {
        opened.push(await convertWriteErrors(path, 0, async () => files.open(temporary, 'write')));
      },
    });
  } catch (error) {
    for (const file of opened) file.close();
    throw error;
  }
  const [file] = opened;
  if (file === undefined) throw new Error(`${path} was published without its check`);
  return { file, path, segment, offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
}

/**
 * Writes a log file under a temporary name, makes it durable, checks it and renames it. If the process is killed at any
 * point, the previous state remains. Removes the temporary file on failure, or if the check returns false.
 *
 * @param bytes disk space required, for the error
 * @returns the result of `write`
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`; errors from `write` and `check`
 */
export async function publishFile<T>(
  files: FileLayer,
  path: string,
  bytes: number,
  steps: {
    readonly write: (target: LogFile) => Promise<T>;
    /** Checks the file under its temporary name. */
    readonly check: (temporary: string, written: T) => unknown;
  },
): Promise<T> {
  const temporary = temporaryPath(path);
  try {
    const written = await convertWriteErrors(temporary, bytes, async () => {
      const target = await createOrReplace(files, temporary);
      try {
        const result = await steps.write(target);
        await convertSyncErrors(temporary, () => target.datasync());
        return result;
      } finally {
        target.close();
      }
    });
    if ((await steps.check(temporary, written)) === false) {
      await files.remove(temporary);
      return written;
    }
    await convertWriteErrors(path, 0, () => files.rename(temporary, path));
    await convertSyncErrors(path, () => files.syncFolder(dirname(path)));
    return written;
  } catch (error) {
    // If the file cannot be removed now, the next attempt replaces it, or opening the log removes it.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
}

/** Runs a write and converts its system errors. @throws `disk-full`, `log-write-failed` */
export async function convertWriteErrors<T>(
  path: string,
  bytes: number,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof MailkeepError) throw error;
    const full = ['ENOSPC', 'EDQUOT'].includes(errnoName(error));
    throw full ? diskFull(path, bytes, error) : logWriteFailed(path, error);
  }
}

/** Runs a sync and converts its errors. @throws `log-sync-failed` */
export async function convertSyncErrors(path: string, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    throw logSyncFailed(path, error);
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

/** The file of the segment being written. Methods throw `disk-full`, `log-write-failed` and `log-sync-failed`. */
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

  get path(): string {
    return this.#path;
  }

  async append(bytes: Buffer, offset: number): Promise<void> {
    await writeDurably(this.#path, () => this.#file, bytes, offset);
  }

  async cut(offset: number): Promise<void> {
    await convertWriteErrors(this.#path, 0, () => this.#file.truncate(offset));
  }

  /** Closes the current segment and starts the next one. */
  async roll(segment: number, previous: ChainState): Promise<void> {
    const { files, dir, archiveId } = this.log;
    const { file, path } = await createSegment(files, dir, archiveId, segment, previous);
    this.#file.close();
    this.#file = file;
    this.#path = path;
  }

  close(): void {
    this.#file.close();
  }
}
