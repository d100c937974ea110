import { join } from 'node:path';
import { freeBytes } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { isTemporary, logFolder } from '../archive/format/layout.ts';
import type { ArchiveCodec } from '../archive/format/stored-payload.ts';
import { listSegments, localSegments } from '../archive/read/segment-files.ts';
import { fetchAll, type SegmentStore } from '../archive/read/segment-store.ts';
import {
  type Compactable,
  compactableSegments,
  compactSegment,
  dropOldGenerations,
  isDamage,
} from '../archive/write/compact-segments.ts';
import { writing } from '../archive/write/hot-segment.ts';
import { sealerOnThread } from '../archive/write/sealer.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { refuseNetworkFileSystem, withLock } from './archive/archive-folder.ts';
import type { Writer } from './archive/writer.ts';
import type { EngineContext } from './context.ts';

export interface CompactionStep {
  readonly damaged: readonly MailkeepError[];
  /** Whether segments are left that have not been examined. */
  readonly more: boolean;
}

/** Rewrites the segments that another codec compressed, from the first to the last, one at a time. */
export class Compaction {
  readonly #damaged: MailkeepError[] = [];
  /** Segments before this one are done: newer ones are sealed with the codec of this process. */
  #next = 1;

  constructor(private readonly writer: Writer) {}

  /**
   * Rewrites the next segment, if there is one.
   *
   * @param leastFree bytes that the disk has to have left while both files are there; without them nothing is done
   * @returns every damage met so far, so that who reports it knows that it is still there
   */
  async step(leastFree: number, signal: AbortSignal): Promise<CompactionStep> {
    const { dataDir: dir, codec, sealer, sources, segments } = this.writer;
    const found = this.#find();
    if (found === undefined || signal.aborted) return this.#stopped(false);
    const free = await freeBytes(dir);
    if (free - found.bytes < leastFree) return this.#stopped(false);
    try {
      await compactSegment(realFiles, sealer, { dir, segment: found.segment, codec }, segments);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#damaged.push(error);
    } finally {
      await sealer.close();
      sources.refresh();
    }
    this.#next = found.segment + 1;
    return this.#stopped(true);
  }

  #stopped(more: boolean): CompactionStep {
    return { damaged: [...this.#damaged], more };
  }

  #find(): Compactable | undefined {
    const { dataDir, codec, log } = this.writer;
    for (const found of compactableSegments(realFiles, dataDir, codec, this.#next)) {
      if ('bytes' in found) return found;
      this.#damaged.push(found.damage);
      this.#next = found.segment + 1;
    }
    this.#next = log.segment;
    return undefined;
  }
}

export interface CompactResult {
  readonly codec: ArchiveCodec;
  readonly dryRun: boolean;
  /** Segments that were rewritten, or would be, and bytes of their files. */
  readonly segments: number;
  readonly bytesBefore: number;
  /** Null for a dry run. */
  readonly bytesAfter: number | null;
  /** Segments that another codec compressed and that were not reached. */
  readonly remaining: number;
  readonly interrupted: boolean;
  readonly damaged: readonly MailkeepError[];
}

/** Returns what `compactArchive` would rewrite, and writes nothing. */
export function planCompaction(dir: string, codec: ArchiveCodec): CompactResult {
  const { segments, damaged } = survey(dir, codec);
  return {
    codec,
    dryRun: true,
    segments: segments.length,
    bytesBefore: segments.reduce((total, segment) => total + segment.bytes, 0),
    bytesAfter: null,
    remaining: segments.length,
    interrupted: false,
    damaged,
  };
}

/**
 * Rewrites the sealed segments that are compressed otherwise than with `codec`, holding the archive's lock.
 *
 * @param progress called after each segment with how many were examined, of how many
 * @param store where the archive's segments are: all are fetched first, and each is published when it was rewritten
 * @throws archive-in-use, network-file-system: nothing was changed
 * @throws what fetching and publishing a segment throw
 * @throws disk-full and the other errors of writing: what was rewritten stays, and the next run continues
 */
export async function compactArchive(
  { surroundings, signal }: Pick<EngineContext, 'surroundings' | 'signal'>,
  dir: string,
  codec: ArchiveCodec,
  progress: (examined: number, of: number) => void,
  store: SegmentStore = localSegments,
): Promise<CompactResult> {
  refuseNetworkFileSystem(dir, surroundings.env);
  return withLock(dir, () => compactAll(dir, codec, signal, progress, store));
}

async function compactAll(
  dir: string,
  codec: ArchiveCodec,
  signal: AbortSignal,
  progress: (examined: number, of: number) => void,
  store: SegmentStore,
): Promise<CompactResult> {
  await fetchAll(store, [...listSegments(realFiles, dir).keys()].at(-1) ?? 0);
  await clearRemains(dir, store);
  const { segments, damaged } = survey(dir, codec);
  const sealer = sealerOnThread();
  let [done, bytesBefore, bytesAfter] = [0, 0, 0];
  let examined = 0;
  try {
    for (const { segment } of segments) {
      if (signal.aborted) break;
      examined += 1;
      try {
        const sealed = await compactSegment(realFiles, sealer, { dir, segment, codec }, store);
        done += 1;
        bytesBefore += sealed.bytesBefore;
        bytesAfter += sealed.bytesAfter;
      } catch (error) {
        if (!isDamage(error)) throw error;
        damaged.push(error);
      }
      progress(examined, segments.length);
    }
  } finally {
    await sealer.close();
  }
  const remaining = segments.length - examined;
  const interrupted = remaining > 0;
  return {
    ...{ codec, dryRun: false, segments: done, bytesBefore, bytesAfter },
    ...{ remaining, interrupted, damaged },
  };
}

/** Removes what a killed run left: unfinished files, and generations that a sealed one has replaced. */
async function clearRemains(dir: string, segments: SegmentStore): Promise<void> {
  const folder = logFolder(dir);
  for (const name of realFiles.list(folder).filter(isTemporary)) {
    await writing(folder, 0, () => realFiles.remove(join(folder, name)));
  }
  await writing(folder, 0, () =>
    dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0, segments }),
  );
}

function survey(dir: string, codec: ArchiveCodec) {
  const segments: Compactable[] = [];
  const damaged: MailkeepError[] = [];
  for (const found of compactableSegments(realFiles, dir, codec)) {
    if ('bytes' in found) segments.push(found);
    else damaged.push(found.damage);
  }
  return { segments, damaged };
}
