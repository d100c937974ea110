import type { LogReader } from '../archive/read/log-reader.ts';
import type { IndexedDocument, IndexWriter, PendingMessage } from '../catalog/indexing.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import { emptyExtraction } from '../mime/extraction.ts';
import type { Extractor } from '../mime/extractor.ts';
import { type IndexEntry, indexEntry } from '../mime/index-entry.ts';
import { DEFAULT_LIMITS } from '../mime/limits.ts';

/** Where raw sources come from. */
export type SourceStore = Pick<LogReader, 'readSource'>;

export interface IndexingProgress {
  /** Messages indexed in this round, the unparsed among them. */
  readonly indexed: number;
  readonly unparsed: number;
  readonly remaining: number;
}

interface IndexPendingOptions {
  readonly store: Pick<IndexWriter, 'pending' | 'pendingCount' | 'index' | 'mode'>;
  readonly sources: SourceStore;
  readonly extractor: Extractor;
  /** When aborted, what is extracted by then is indexed and the rest left pending. */
  readonly signal: AbortSignal;
  /** Messages to index at most; all that are pending if not said. */
  readonly limit?: number | undefined;
  readonly progress?: ((progress: IndexingProgress) => void) | undefined;
}

interface IndexingResult extends IndexingProgress {
  /** Messages whose bytes in the archive are damaged: indexed by what the origin listed, nothing more. */
  readonly damaged: readonly MessageId[];
}

/** Documents a transaction, at most. */
const MAX_DOCUMENTS = 500;
/** Bytes of bodies a transaction, about. */
const MAX_TEXT = 4 * 1024 * 1024;
/** Bytes of sources that are being extracted at a time, one larger message apart. */
const MAX_SOURCE_BYTES = 16 * 1024 * 1024;
const PAGE = 1000;
/** From here on merging the index is put off to the end of the round. */
const BULK = 5000;

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
  const bulk = Math.min(count, options.limit ?? count) >= BULK;
  const round = new IndexingRound(options, count);
  if (bulk) options.store.mode('bulk');
  try {
    await round.run();
  } finally {
    if (bulk) options.store.mode('steady');
  }
  return round.result();
}

class IndexingRound {
  #documents: IndexedDocument[] = [];
  #textSize = 0;
  #indexed = 0;
  #unparsed = 0;
  readonly #damaged: MessageId[] = [];
  #flying = 0;
  #flyingBytes = 0;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void) | null = null;

  constructor(
    private readonly options: IndexPendingOptions,
    private readonly due: number,
  ) {}

  async run(): Promise<void> {
    const { signal, extractor } = this.options;
    const stop = () => this.#wake?.();
    signal.addEventListener('abort', stop);
    try {
      for (const message of this.#walk()) {
        const full = () =>
          this.#flying > 0 &&
          (this.#flying >= extractor.width || this.#flyingBytes + message.size > MAX_SOURCE_BYTES);
        while (full() && !this.#stopped()) await this.#landing();
        if (this.#stopped()) break;
        this.#start(message);
      }
      while (this.#flying > 0 && !this.#stopped()) await this.#landing();
    } finally {
      signal.removeEventListener('abort', stop);
    }
    if (this.#failure !== null) throw this.#failure.error;
    this.#flush();
  }

  result(): IndexingResult {
    return {
      indexed: this.#indexed,
      unparsed: this.#unparsed,
      remaining: this.options.store.pendingCount(),
      damaged: this.#damaged,
    };
  }

  /** Pending messages, newest first, each once. */
  *#walk(): Iterable<PendingMessage> {
    let left = this.options.limit ?? Number.POSITIVE_INFINITY;
    let before = Number.MAX_SAFE_INTEGER;
    while (left > 0) {
      const limit = Math.min(PAGE, left);
      const page = this.options.store.pending({ limit, before });
      for (const message of page) {
        yield message;
        before = message.docid;
      }
      left -= page.length;
      if (page.length < limit) return;
    }
  }

  #stopped(): boolean {
    return this.#failure !== null || this.options.signal.aborted;
  }

  /** Resolves when a message has landed or the round is to stop. */
  #landing(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = null;
        resolve();
      };
    });
  }

  #start(message: PendingMessage): void {
    const bytes = Math.min(message.size, DEFAULT_LIMITS.sourceBytes);
    this.#flying++;
    this.#flyingBytes += bytes;
    this.#extracted(message)
      .then((entry) => this.#land(message, entry))
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#flying--;
        this.#flyingBytes -= bytes;
        this.#wake?.();
      });
  }

  /** Null for a message that is none any more. */
  async #extracted({ id }: PendingMessage): Promise<IndexEntry | null> {
    let read: { readonly bytes: Uint8Array; readonly cut: boolean };
    try {
      read = this.options.sources.readSource(id, DEFAULT_LIMITS.sourceBytes);
    } catch (error) {
      if (hasCode(error, 'bytes-purged')) return null;
      // A message in the catalog without a place in the log: what a rebuild from a damaged log leaves.
      const damage =
        hasCode(error, 'bytes-unknown') ||
        (error instanceof MailkeepError && error.family === 'damage');
      if (!damage) throw error;
      // Listed, found by its listing and reported; one bad sector must not keep the rest from being found.
      this.#damaged.push(id);
      return indexEntry(emptyExtraction('damaged'));
    }
    return this.options.extractor.extract({ id, source: read.bytes, cut: read.cut });
  }

  #land({ docid }: PendingMessage, entry: IndexEntry | null): void {
    // After an abort the round may be over, and its store closed.
    if (entry === null || this.#stopped()) return;
    this.#documents.push({ docid, entry });
    this.#textSize += entry.body.length;
    if (this.#documents.length >= MAX_DOCUMENTS || this.#textSize >= MAX_TEXT) this.#flush();
  }

  #flush(): void {
    if (this.#documents.length === 0) return;
    // Ascending, because FTS5 writes out its buffer whenever a rowid is lower than the one before.
    const documents = this.#documents.sort((a, b) => a.docid - b.docid);
    this.#documents = [];
    this.#textSize = 0;
    this.options.store.index(documents);
    this.#indexed += documents.length;
    for (const { entry } of documents) if (entry.unparsed !== null) this.#unparsed++;
    this.options.progress?.({
      indexed: this.#indexed,
      unparsed: this.#unparsed,
      remaining: Math.max(0, this.due - this.#indexed),
    });
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
