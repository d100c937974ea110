import { freeBytes } from '../../archive/files/file-layer.ts';
import { realFiles } from '../../archive/files/real-files.ts';
import {
  type Compactable,
  compactableSegments,
  compactSegment,
  isDamage,
} from '../../archive/write/compact-segments.ts';
import type { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { Writer } from '../archive/writer.ts';

export interface CompactionStep {
  readonly damaged: readonly MailkeepError[];
  /** Whether segments are left that have not been examined. */
  readonly more: boolean;
}

/** Rewrites the segments that another codec compressed, from the first to the last, one at a time. */
export class Compaction {
  readonly #writer: Writer;
  readonly #damaged: MailkeepError[] = [];
  /** Segments before this one are done: newer ones are sealed with the codec of this process. */
  #next = 1;

  constructor(writer: Writer) {
    this.#writer = writer;
  }

  /**
   * Rewrites the next segment, if there is one.
   *
   * @param leastFree bytes that the disk has to have left while both files are there; without them nothing is done
   * @returns every damage met so far, so that who reports it knows that it is still there
   */
  async step(leastFree: number, signal: AbortSignal): Promise<CompactionStep> {
    const { dataDir: dir, codec, sealer, sources } = this.#writer;
    const found = this.#find();
    if (found === undefined || signal.aborted) return this.#stopped(false);
    const free = await freeBytes(dir);
    if (free - found.bytes < leastFree) return this.#stopped(false);
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
    return this.#stopped(true);
  }

  #stopped(more: boolean): CompactionStep {
    return { damaged: [...this.#damaged], more };
  }

  #find(): Compactable | undefined {
    const { dataDir, codec, log } = this.#writer;
    for (const found of compactableSegments(realFiles, dataDir, codec, this.#next)) {
      if ('bytes' in found) return found;
      this.#damaged.push(found.damage);
      this.#next = found.segment + 1;
    }
    this.#next = log.segment;
    return undefined;
  }
}
