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

/** The segment that is written to, and how far it is durable. */
export interface HotSegment {
  readonly file: LogFile;
  readonly path: string;
  readonly segment: number;
  /** Where the next batch begins. Bytes beyond it, if any, are the rest of a write that failed. */
  readonly offset: number;
  readonly ordinal: number;
}

/**
 * Creates a segment: its header and its name are durable before anything is written to it. It appears under its name
 * whole, so a segment with a torn header cannot be.
 */
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
      // What cannot be removed now is replaced by the next attempt.
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
 * Writes a file of the log under a temporary name, makes it durable, has it checked, and gives it its own name: a kill at
 * any moment leaves what was there. Whatever fails removes the temporary file, and so does a check that returns false.
 *
 * @param bytes that the disk has to take, for the error
 * @returns what `write` returned
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`; what `write` and `check` throw
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
    // What cannot be removed now, the next attempt replaces, and the next opening for writing removes.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
}

/** Runs something that writes, and names its failure. @throws `disk-full`, `log-write-failed` */
export async function writing<T>(path: string, bytes: number, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof MailkeepError) throw error;
    const full = ['ENOSPC', 'EDQUOT'].includes(errnoName(error));
    throw full ? diskFull(path, bytes, error) : logWriteFailed(path, error);
  }
}

/** Runs something that makes writes durable, and names its failure. @throws `log-sync-failed` */
export async function syncing(path: string, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    throw logSyncFailed(path, error);
  }
}

/** The file of the segment that is written to. Every method throws `disk-full`, `log-write-failed` or `log-sync-failed`. */
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

  /** Writes bytes that nobody promises to be on the disk. */
  async write(bytes: Buffer, offset: number): Promise<void> {
    await writing(this.#path, bytes.length, () => writeAll(this.#file, bytes, offset));
  }

  async sync(): Promise<void> {
    await syncing(this.#path, () => this.#file.datasync());
  }

  /** Cuts off what lies behind an offset. */
  async cut(offset: number): Promise<void> {
    await writing(this.#path, 0, () => this.#file.truncate(offset));
  }

  /**
   * Creates the file of the next segment, durably, and lets go of this one.
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
