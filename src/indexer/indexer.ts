import type { IndexingResult, IndexPendingOptions } from './index-pending.ts';
import { indexPending } from './index-pending.ts';

/** Makes stored messages searchable, a few at a time during other work or all at once. */
export interface Indexer {
  /** Indexes at most `limit` messages, newest first; resolves with how many are left. */
  some(limit: number, signal: AbortSignal): Promise<number>;
  /** Indexes everything that is pending, also what becomes pending meanwhile. */
  all(signal: AbortSignal): Promise<void>;
  /** What was indexed since the indexer was made. */
  totals(): Omit<IndexingResult, 'remaining'>;
}

/**
 * One indexer a catalog: its rounds follow each other, so that no message is extracted twice. It owns neither
 * the catalog nor the extractor.
 */
export function createIndexer(options: Omit<IndexPendingOptions, 'signal' | 'limit'>): Indexer {
  let previous: Promise<unknown> = Promise.resolve();
  let indexed = 0;
  let unparsed = 0;
  const damaged: string[] = [];
  const round = (signal: AbortSignal, limit?: number): Promise<IndexingResult> => {
    const run = previous.then(async () => {
      const result = await indexPending({
        ...options,
        signal,
        ...(limit === undefined ? {} : { limit }),
      });
      indexed += result.indexed;
      unparsed += result.unparsed;
      damaged.push(...result.damaged);
      return result;
    });
    // A round that failed does not keep the next one from trying.
    previous = run.catch(() => undefined);
    return run;
  };
  return {
    some: async (limit, signal) => (await round(signal, limit)).remaining,
    async all(signal) {
      for (;;) {
        const { indexed: done, remaining } = await round(signal);
        // What cannot be indexed (it was purged meanwhile) stays; rounds without effect end.
        if (remaining === 0 || done === 0 || signal.aborted) return;
      }
    },
    totals: () => ({ indexed, unparsed, damaged: [...damaged] }),
  };
}
