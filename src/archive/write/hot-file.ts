import { type FileLayer, type LogFile, writeAll } from '../files/file-layer.ts';
import type { ChainState } from '../read/segment-batches.ts';
import { createSegment, type HotSegment, syncing, writing } from './hot-segment.ts';

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
