import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { type SegmentFile, segmentPath } from '../archive/format.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import type { Fenced } from '../registry/outcome.ts';
import type { StoredArchive, StoredCover } from '../registry/reading.ts';
import { coverSegment } from '../registry/uploads.ts';
import { coverWith, isCovering } from './covering.ts';
import { fleetObjectError } from './errors.ts';
import type { HeldArchive } from './held-archive.ts';
import type { ObjectNames } from './object-names.ts';
import { openSealed, type SealedFile } from './sealed-file.ts';
import { type NewObject, uploadObject } from './uploads.ts';

/** What is to be removed from segments, by the numbers of the purges: ordinals of records by segment. */
export type PurgedRecords = ReadonlyMap<number, ReadonlyMap<number, readonly number[]>>;

export interface PublisherOptions {
  readonly held: HeldArchive;
  readonly objects: UploadingStore;
  readonly names: ObjectNames;
  readonly files: FileLayer;
  /** The archive's local folder. */
  readonly dir: string;
  /** What the registry had when the archive was claimed. */
  readonly stored: Pick<StoredArchive, 'covers' | 'logId'>;
  /** Returns the purges that were decided and are not finished: each is there no later than `held.head.purges` counts it. */
  readonly unfinishedPurges: () => PurgedRecords;
}

/** Uploads sealed files of an archive and lets them cover their segments, one after the other. */
export class SealedPublisher {
  /** The sealed files that the registry names, by segment. */
  readonly #covers = new Map<number, StoredCover>();
  /** Covers of ours of which nobody knows whether the registry took them. */
  readonly #unsettled = new Map<number, StoredCover>();

  constructor(private readonly options: PublisherOptions) {
    for (const cover of options.stored.covers) {
      if (cover.generation > 1) this.#covers.set(cover.segment, cover);
    }
  }

  /** Returns the sealed file of a segment that the registry names; a segment without one is in the tail or in chunks. */
  coverOf(segment: number): StoredCover | undefined {
    return this.#covers.get(segment);
  }

  /** Does nothing if the registry names the file already. Throws as `FleetStore.publish`. */
  async publish(file: SegmentFile, signal: AbortSignal): Promise<void> {
    const { segment, generation } = file;
    await this.#settle(segment);
    const known = this.#covers.get(segment)?.generation ?? 0;
    if (known === generation) return;
    if (known > generation) throw refused(file, 'covered');
    const { held, files, dir, stored } = this.options;
    // Read before the content: what is decided from here on is refused.
    const decided = held.head.purges;
    const sealed = await openSealed(files, dir, file);
    try {
      if (!sealed.archiveId.equals(stored.logId)) {
        const path = segmentPath(dir, file);
        throw archiveError('log-damaged', {
          file: path,
          segment,
          offset: 0,
          reason: 'segment-header',
        });
      }
      const purges = this.#purgesIn(sealed, decided);
      if (purges < held.head.purges) throw refused(file, 'purged');
      await this.#upload(file, sealed, purges, signal);
    } finally {
      sealed.close();
    }
  }

  async #upload(
    file: SegmentFile,
    sealed: SealedFile,
    purges: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { held, objects, names, stored } = this.options;
    const { range, length, sha256 } = sealed;
    const object: NewObject = {
      ...{ kind: 'sealed', length, sha256, purges },
      name: (epoch) => names.sealed(file, range, epoch),
      bytes: () => sealed.bytes(),
      metadata: { logId: stored.logId, ...range },
    };
    const result = await uploadObject({ held, objects, signal }, object);
    if (result.outcome === 'fenced') throw this.#refusal(file, purges, result);
    const { uploaded } = result;
    const cover = { ...range, ...uploaded };
    this.#unsettled.set(file.segment, cover);
    const covered = await coverWith(held, uploaded, (lease) =>
      coverSegment(held.registry, lease, uploaded, range),
    );
    this.#unsettled.delete(file.segment);
    if (covered.outcome === 'fenced') throw this.#refusal(file, purges, covered);
    this.#covers.set(file.segment, cover);
  }

  /** Finds out about a cover whose outcome was unknown. @throws as `isCovering` */
  async #settle(segment: number): Promise<void> {
    const cover = this.#unsettled.get(segment);
    if (cover === undefined) return;
    if (await isCovering(this.options.held.registry, cover.key)) this.#covers.set(segment, cover);
    this.#unsettled.delete(segment);
  }

  /**
   * Returns how many purges the content of a file is known to be made with. A file that was sealed before a purge was decided
   * may be published after it, and must not look as if nothing of the purge were in it.
   */
  #purgesIn(sealed: SealedFile, decided: number): number {
    const { segment } = sealed.range;
    const missing = [...this.options.unfinishedPurges()]
      .filter(([, records]) => records.get(segment)?.some((ordinal) => !sealed.isPurged(ordinal)))
      .map(([number]) => number - 1);
    return Math.min(decided, ...missing);
  }

  #refusal(file: SegmentFile, purges: number, { by }: Fenced): Error {
    const { held } = this.options;
    if (held.lostBy !== undefined)
      return archiveError('log-fenced', { commit: null, reason: 'refused' });
    if (by === 'lease') return refused(file, 'moved');
    if (by === 'purges' || purges < held.head.purges) return refused(file, 'purged');
    if (by === 'object') return refused(file, 'collected');
    return refused(file, by === 'segment' ? 'open' : 'covered');
  }
}

function refused(
  { segment, generation }: SegmentFile,
  reason: ReturnType<typeof fleetObjectError>['facts']['reason'],
): Error {
  return fleetObjectError('seal-refused', { segment, generation, reason });
}
