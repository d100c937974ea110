import { archiveError } from '../archive/errors.ts';
import { type FileLayer, openRegular, writeAll } from '../archive/file-system.ts';
import { formatPath, type SegmentFile, segmentPath } from '../archive/format.ts';
import { convertWriteErrors, publishFile } from '../archive/hot-segment.ts';
import { allowZstd } from '../archive/recovery.ts';
import type { SegmentStore } from '../archive/segment-files.ts';
import { openSegment } from '../archive/segment-files.ts';
import { objectError } from '../copies/errors.ts';
import { errnoName } from '../core/errors.ts';
import type { StoredCover } from '../registry/reading.ts';
import { type PublisherOptions, SealedPublisher } from './publish-sealed.ts';
import { verifiedBytes } from './verified-bytes.ts';

export interface FleetStoreOptions extends PublisherOptions {
  readonly signal: AbortSignal;
}

/** Sealed segments of an archive of a fleet: in the object store, and as copies in the log's folder. */
export class FleetStore implements SegmentStore {
  readonly #publisher: SealedPublisher;
  readonly #fetching = new Map<number, Promise<void>>();
  #publishing: Promise<void> = Promise.resolve();
  readonly #closing = new AbortController();
  readonly #signal: AbortSignal;

  private constructor(private readonly options: FleetStoreOptions) {
    this.#publisher = new SealedPublisher(options);
    this.#signal = AbortSignal.any([options.signal, this.#closing.signal]);
  }

  /**
   * Opens the store of an archive whose folder is laid out, before anything else writes there.
   *
   * @throws `disk-full`, `log-write-failed`; `archive-missing` and its like
   */
  static async open(options: FleetStoreOptions): Promise<FleetStore> {
    const { files, dir, stored } = options;
    // FORMAT has to allow zstd before any file has it. Later, the sealer would write FORMAT at the same time.
    const isFetching = stored.covers.some(({ generation }) => generation > 1);
    if (isFetching) await convertWriteErrors(formatPath(dir), 0, () => allowZstd(files, dir));
    return new FleetStore(options);
  }

  present(segment: number): boolean {
    const cover = this.#publisher.coverOf(segment);
    // What is sealed nowhere is in the folder: a new holder writes it there before anything is read.
    if (cover === undefined) return true;
    const { files, dir } = this.options;
    return lengthOf(files, segmentPath(dir, cover)) === cover.bytes;
  }

  /**
   * Brings sealed files into the log's folder, each verified before it gets its name.
   *
   * @throws object-missing, object-damaged, and the other errors of the object store; `disk-full`, `log-write-failed`,
   *   `log-sync-failed`; `log-fenced` when the archive was lost; the signal's reason
   */
  async fetch(segments: readonly number[]): Promise<void> {
    for (const segment of segments) await this.#fetchOnce(segment);
  }

  /**
   * Uploads a sealed file and lets it cover its segment. Does nothing if it does already.
   *
   * @throws `seal-refused`; `log-damaged`; `log-fenced` when the archive was lost; outcome-unknown, and the other errors of
   *   the registry and the object store; the signal's reason
   */
  async publish(sealed: SegmentFile): Promise<void> {
    // One after the other: each may be large, and two of one segment must not race.
    const published = this.#publishing.then(() => {
      this.#refuseLost();
      return this.#publisher.publish(sealed, this.#signal);
    });
    this.#publishing = published.catch(() => undefined);
    await published;
  }

  /** Calls off what is under way, and resolves when nothing more is written to the folder. */
  async close(): Promise<void> {
    this.#closing.abort(archiveError('log-fenced', { commit: null, reason: 'refused' }));
    await Promise.allSettled([this.#publishing, ...this.#fetching.values()]);
  }

  async #fetchOnce(segment: number): Promise<void> {
    const cover = this.#publisher.coverOf(segment);
    if (cover === undefined || this.present(segment)) return;
    let fetching = this.#fetching.get(segment);
    if (fetching === undefined) {
      fetching = this.#download(cover).finally(() => this.#fetching.delete(segment));
      this.#fetching.set(segment, fetching);
    }
    await fetching;
  }

  async #download(cover: StoredCover): Promise<void> {
    const { files, dir, objects } = this.options;
    this.#refuseLost();
    try {
      await publishFile(files, segmentPath(dir, cover), cover.bytes, {
        write: async (target) => {
          let at = 0;
          for await (const piece of verifiedBytes(objects, cover, this.#signal)) {
            await writeAll(target, piece, at);
            at += piece.length;
          }
        },
        check: (temporary) => this.#checkFetched(cover, temporary),
      });
    } catch (error) {
      // An error of the disk would be made of the signal's reason.
      this.#signal.throwIfAborted();
      throw error;
    }
  }

  /** The bytes are those that were uploaded; whether they still belong here is another matter. */
  #checkFetched(cover: StoredCover, temporary: string): void {
    const { files, dir, objects, stored } = this.options;
    // Whoever lost an archive may have to remove it from this disk.
    this.#refuseLost();
    // A later generation may lack what was purged meanwhile.
    if (this.#publisher.coverOf(cover.segment) !== cover)
      throw archiveError('segment-elsewhere', { segment: cover.segment });
    const opened = openSegment(files, dir, cover, temporary);
    opened?.file.close();
    if (opened?.sealed !== undefined && opened.header.archiveId.equals(stored.logId)) return;
    throw objectError('object-damaged', { store: objects.label, name: cover.key });
  }

  #refuseLost(): void {
    this.#signal.throwIfAborted();
    if (this.options.held.lostBy !== undefined)
      throw archiveError('log-fenced', { commit: null, reason: 'refused' });
  }
}

/** Returns the length of a file; undefined where there is none. */
export function lengthOf(files: FileLayer, path: string): number | undefined {
  try {
    const file = openRegular(files, path);
    const length = file?.size();
    file?.close();
    return length;
  } catch (error) {
    if (errnoName(error) === 'ENOENT') return undefined;
    throw error;
  }
}
