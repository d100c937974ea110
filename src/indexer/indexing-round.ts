import type { LogReader } from '../archive/read/log-reader.ts';
import { localSegments } from '../archive/read/segment-files.ts';
import { fetching, type SegmentStore } from '../archive/read/segment-store.ts';
import type { IndexedDocument, IndexWriter, PendingMessage } from '../catalog/indexing.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import { emptyExtraction } from '../mime/extraction.ts';
import type { Extractor } from '../mime/extractor.ts';
import { type IndexEntry, indexEntry } from '../mime/index-entry.ts';
import { DEFAULT_LIMITS } from '../mime/limits.ts';

/** Where raw sources come from. */
export type SourceStore = Pick<LogReader, 'readSource'>;

export interface RoundOptions {
  readonly store: Pick<IndexWriter, 'index'>;
  readonly sources: SourceStore;
  /** Where segments are that are not in the folder; if not said, all are there. */
  readonly segments?: SegmentStore | undefined;
  readonly extractor: Extractor;
  /** When aborted, what is extracted by then is indexed and the rest left pending. */
  readonly signal: AbortSignal;
  /** Leaves messages pending whose bytes are damaged, instead of indexing what the origin listed. */
  readonly leaveDamaged?: boolean;
}

/** What a round has done so far. */
export interface RoundCounts {
  /** Messages indexed in this round, the unparsed among them. */
  readonly indexed: number;
  readonly unparsed: number;
  /** Messages whose bytes in the archive are damaged: indexed by what the origin listed, nothing more. */
  readonly damaged: readonly MessageId[];
}

/** Documents a transaction, at most. */
const MAX_DOCUMENTS = 500;
/** Messages from one report to the next. */
const REPORT_EVERY = 20;
/** Bytes of bodies a transaction, about. */
const MAX_TEXT = 4 * 1024 * 1024;
/** Bytes of sources that are being extracted at a time, one larger message apart. */
const MAX_SOURCE_BYTES = 6 * 1024 * 1024;

/**
 * Extracts and indexes the messages that it is fed, in transactions of some hundred documents. Memory is bounded by the
 * sources in flight and the texts of one transaction.
 */
export class IndexingRound {
  #documents: IndexedDocument[] = [];
  #textSize = 0;
  #indexed = 0;
  #unparsed = 0;
  readonly #damaged: MessageId[] = [];
  #flying = 0;
  #flyingBytes = 0;
  #failure: { readonly error: unknown } | null = null;
  #isCancelled = false;
  #wake: (() => void) | null = null;

  constructor(
    private readonly options: RoundOptions,
    /** Called with the messages extracted so far, after each transaction and every few messages. */
    private readonly progressed: (counts: RoundCounts & { readonly extracted: number }) => void,
  ) {}

  /**
   * Starts the extraction of each message, as room permits, and returns while the last ones are still in flight; after
   * an abort it returns at once.
   *
   * @throws what made the round fail
   */
  async feed(messages: Iterable<PendingMessage>): Promise<void> {
    const { width } = this.options.extractor;
    for (const message of messages) {
      const full = () =>
        this.#flying > 0 &&
        (this.#flying >= width || this.#flyingBytes + message.size > MAX_SOURCE_BYTES);
      await this.#landings(full);
      if (this.#stopped()) break;
      this.#start(message);
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  /**
   * Waits for what is in flight and indexes it; after an abort only what was extracted by then.
   *
   * @throws what made the round fail
   */
  async finish(): Promise<void> {
    await this.#landings(() => this.#flying > 0);
    if (this.#failure !== null) throw this.#failure.error;
    this.#flush();
  }

  /** Gives up what is in flight. */
  cancel(): void {
    this.#isCancelled = true;
  }

  counts(): RoundCounts {
    return { indexed: this.#indexed, unparsed: this.#unparsed, damaged: this.#damaged };
  }

  #stopped(): boolean {
    return this.#isCancelled || this.#failure !== null || this.options.signal.aborted;
  }

  /** Resolves when enough messages have landed, or the round is to stop. */
  async #landings(wanted: () => boolean): Promise<void> {
    if (!wanted() || this.#stopped()) return;
    const { signal } = this.options;
    const stop = () => this.#wake?.();
    signal.addEventListener('abort', stop);
    try {
      while (wanted() && !this.#stopped()) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#wake = null;
      signal.removeEventListener('abort', stop);
    }
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

  /** Null for a message that is not to be indexed: it was purged, or is damaged and left for later. */
  async #extracted({ id }: PendingMessage): Promise<IndexEntry | null> {
    const { sources, segments = localSegments } = this.options;
    let read: { readonly bytes: Uint8Array; readonly cut: boolean };
    try {
      read = await fetching(segments, () => sources.readSource(id, DEFAULT_LIMITS.sourceBytes));
    } catch (error) {
      if (hasCode(error, 'bytes-purged')) return null;
      // A message in the catalog without a place in the log: what a rebuild from a damaged log leaves.
      const damage =
        hasCode(error, 'bytes-unknown') ||
        (error instanceof MailkeepError && error.family === 'damage');
      if (!damage) throw error;
      if (this.options.leaveDamaged === true) return null;
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
    else if (this.#documents.length % REPORT_EVERY === 0) this.#report();
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
    this.#report();
  }

  #report(): void {
    this.progressed({ ...this.counts(), extracted: this.#indexed + this.#documents.length });
  }
}
