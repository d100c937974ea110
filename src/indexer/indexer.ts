import type { IndexWriter, PendingMessage } from '../catalog/indexing.ts';
import { IndexingRound, type RoundCounts, type RoundOptions } from './indexing-round.ts';

export interface IndexingProgress {
  /** Messages extracted in this round, the unparsed among them; they are searchable a moment later. */
  readonly indexed: number;
  readonly unparsed: number;
  readonly remaining: number;
}

interface IndexPendingOptions extends RoundOptions {
  readonly store: Pick<IndexWriter, 'pending' | 'pendingCount' | 'index' | 'mode'>;
  /** Messages to index at most; all that are pending if not said. */
  readonly limit?: number | undefined;
  readonly progress?: ((progress: IndexingProgress) => void) | undefined;
}

type IndexingResult = RoundCounts & Pick<IndexingProgress, 'remaining'>;

const PAGE = 1000;
/** Messages from which on merging the index is put off to the end of the round. */
export const BULK = 5000;

/**
 * Extracts and indexes pending messages, newest first, in transactions of some hundred documents. Memory is
 * bounded by the sources in flight and the texts of one transaction. A message that arrives meanwhile waits
 * for the next round.
 *
 * @throws what the store throws; what `sources` throws other than damage or purges; `mime-worker-failed`
 */
export async function indexPending(options: IndexPendingOptions): Promise<IndexingResult> {
  const count = options.store.pendingCount();
  if (count === 0) return { indexed: 0, unparsed: 0, remaining: 0, damaged: [] };
  const { store, limit = Number.POSITIVE_INFINITY, progress } = options;
  const bulk = Math.min(count, limit) >= BULK;
  const report = (indexed: number, unparsed: number): void =>
    progress?.({ indexed, unparsed, remaining: Math.max(0, count - indexed) });
  report(0, 0);
  const round = new IndexingRound(options, ({ extracted, unparsed }) =>
    report(extracted, unparsed),
  );
  if (bulk) store.mode('bulk');
  try {
    await round.feed(newestFirst(store, limit));
    await round.finish();
  } finally {
    if (bulk) store.mode('steady');
  }
  return { ...round.counts(), remaining: store.pendingCount() };
}

/** Pending messages, newest first, each once. */
function* newestFirst(store: Pick<IndexWriter, 'pending'>, most: number): Iterable<PendingMessage> {
  let left = most;
  let before = Number.MAX_SAFE_INTEGER;
  while (left > 0) {
    const limit = Math.min(PAGE, left);
    const page = store.pending({ limit, before });
    for (const message of page) {
      yield message;
      before = message.docid;
    }
    left -= page.length;
    if (page.length < limit) return;
  }
}

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
      const result = await indexPending({ ...options, signal, limit });
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
