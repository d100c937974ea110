import { hasCode } from '../../errors/mailkeep-error.ts';
import type { SegmentFile } from '../format/layout.ts';

/** Where the files of segments are when they are not in the log's folder. The segment that is written to always is. */
export interface SegmentStore {
  /** False where the log has a segment whose file in force is not in the folder: `fetch` brings it. */
  present(segment: number): boolean;
  /**
   * Brings files into the log's folder, intact and under their own names. Resolves when all are there; it may be asked for
   * some that are.
   */
  fetch(segments: readonly number[]): Promise<void>;
  /**
   * Takes the sealed file of a segment. The generations before it are removed when this has resolved, and stay when it
   * fails. An interruption may have it asked again for a file that it has.
   */
  publish(sealed: SegmentFile): Promise<void>;
}

/**
 * Brings every segment up to `last` into the log's folder, for what reads the folder alone. They are asked for one at a time,
 * and only those that are elsewhere.
 *
 * @throws what `fetch` throws
 */
export async function fetchAll(store: SegmentStore, last: number): Promise<void> {
  for (let segment = 1; segment <= last; segment += 1) {
    if (!store.present(segment)) await store.fetch([segment]);
  }
}

/**
 * Reads what may need segments that are elsewhere: fetches them and reads again.
 *
 * @param read may be called several times, from its beginning
 * @throws `segment-elsewhere` when a segment is still elsewhere after it was fetched; what `fetch` and `read` throw
 */
export async function fetching<T>(store: SegmentStore, read: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!hasCode(error, 'segment-elsewhere')) throw error;
      const segment = Number(error.facts.segment);
      await store.fetch([segment]);
      if (!store.present(segment)) throw error;
    }
  }
}
