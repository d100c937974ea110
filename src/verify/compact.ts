import { join } from 'node:path';
import { freeBytes, realFiles, refuseNetworkFileSystem } from '../archive/file-system.ts';
import { isTemporary, logFolder } from '../archive/format.ts';
import { convertWriteErrors } from '../archive/hot-segment.ts';
import { withLock } from '../archive/lock.ts';
import type { ArchiveCodec } from '../archive/payload.ts';
import {
  type CompactableSegment,
  compactSegment,
  dropOldGenerations,
  listCompactable,
  sealerOnThread,
} from '../archive/seal.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { isDamage, type MailkeepError } from '../core/errors.ts';

/** Rewrites segments that use another codec, in order, one at a time. */
export class Compaction {
  readonly #damaged: MailkeepError[] = [];
  /** All earlier segments are done. Newer ones will be sealed with this process's codec. */
  #next = 1;

  constructor(private readonly writer: Writer) {}

  /**
   * Rewrites the next segment, if any.
   *
   * @param leastFree bytes that must remain free while both files exist; otherwise nothing is done
   * @returns all damage found so far, and whether unexamined segments remain
   */
  async step(leastFree: number, signal: AbortSignal) {
    const { dataDir: dir, codec, sealer, sources } = this.writer;
    const found = this.#find();
    if (found === undefined || signal.aborted) return this.#result(false);
    const available = await freeBytes(dir);
    if (available - found.bytes < leastFree) return this.#result(false);
    try {
      await compactSegment(realFiles, sealer, { dir, segment: found.segment, codec });
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#damaged.push(error);
    } finally {
      await sealer.close();
      sources.refresh();
    }
    this.#next = found.segment + 1;
    return this.#result(true);
  }

  #result(more: boolean) {
    return { damaged: [...this.#damaged], more };
  }

  #find(): CompactableSegment | undefined {
    const { dataDir, codec, log } = this.writer;
    // If a segment cannot be read now, the next attempt finds the damaged ones before it again.
    const damaged: MailkeepError[] = [];
    const [found] = listCompactable(realFiles, dataDir, codec, damaged, this.#next);
    this.#damaged.push(...damaged);
    this.#next = found?.segment ?? log.segment;
    return found;
  }
}

export type CompactResult =
  | ReturnType<typeof planCompaction>
  | Awaited<ReturnType<typeof compactArchive>>;

export function planCompaction(dir: string, codec: ArchiveCodec) {
  const damaged: MailkeepError[] = [];
  const segments = [...listCompactable(realFiles, dir, codec, damaged)];
  const bytesBefore = segments.reduce((total, segment) => total + segment.bytes, 0);
  return {
    ...{ codec, dryRun: true, segments: segments.length, bytesBefore, bytesAfter: null },
    ...{ remaining: segments.length, interrupted: false, damaged },
  };
}

/**
 * Rewrites the sealed segments whose codec is not `codec`, while holding the archive's lock.
 *
 * @param progress called after each segment with the number examined and the total
 * @throws archive-in-use, network-file-system: nothing was changed
 * @throws disk-full and other write errors: rewritten segments are kept, and the next run continues
 */
export async function compactArchive(
  { environment, signal }: Pick<EngineContext, 'environment' | 'signal'>,
  dir: string,
  codec: ArchiveCodec,
  progress: (examined: number, total: number) => void,
) {
  refuseNetworkFileSystem(dir, environment.env);
  return withLock(dir, async () => {
    await clearRemains(dir);
    const damaged: MailkeepError[] = [];
    const segments = [...listCompactable(realFiles, dir, codec, damaged)];
    const sealer = sealerOnThread();
    let [rewritten, bytesBefore, bytesAfter] = [0, 0, 0];
    let examined = 0;
    try {
      for (const { segment } of segments) {
        if (signal.aborted) break;
        examined += 1;
        try {
          const result = await compactSegment(realFiles, sealer, { dir, segment, codec });
          rewritten += 1;
          bytesBefore += result.bytesBefore;
          bytesAfter += result.bytesAfter;
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
      ...{ codec, dryRun: false, segments: rewritten, bytesBefore, bytesAfter },
      ...{ remaining, interrupted, damaged },
    };
  });
}

/** Removes unfinished files and replaced generations left by a killed run. */
async function clearRemains(dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of realFiles.list(folder).filter(isTemporary)) {
    await convertWriteErrors(folder, 0, () => realFiles.remove(join(folder, name)));
  }
  await convertWriteErrors(folder, 0, () =>
    dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0 }),
  );
}
