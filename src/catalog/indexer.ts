import type { LogReader } from '../archive/log-reader.ts';
import { fetching, localSegments, type SegmentStore } from '../archive/segment-files.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import type {
  AttachmentExtractor,
  AttachmentJob,
  AttachmentOutcome,
} from '../mail/attachment-text.ts';
import {
  DEFAULT_LIMITS,
  type Extractor,
  emptyExtraction,
  type IndexEntry,
  indexEntry,
} from '../mail/extraction.ts';
import type { AttachmentWriter, PendingAttachment } from './attachment-texts.ts';
import type { IndexedDocument, IndexWriter, PendingMessage } from './indexing.ts';

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
interface RoundCounts {
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

/** Where bytes come from. */
type AttachmentSources = Pick<LogReader, 'readBlob' | 'streamMessage'>;

interface AttachmentReadingOptions {
  readonly store: Pick<AttachmentWriter, 'pending' | 'pendingAgain' | 'counts' | 'settle'>;
  readonly sources: AttachmentSources;
  /** Where segments are that are not in the folder; if not said, all are there. */
  readonly segments?: SegmentStore | undefined;
  readonly extractor: AttachmentExtractor;
  /** Indexes messages that are due: an indexer's `all`. */
  readonly index: (signal: AbortSignal) => Promise<void>;
  /** Frees the memory of what reads messages, for as long as attachments are read. */
  readonly makeRoom: () => Promise<void>;
  /** When aborted, what was read by then is kept and the rest left pending. */
  readonly signal: AbortSignal;
  /** Asked before each attachment: false ends the run there. @param lostMs work lost to attachments that take too long */
  readonly goOn?: (lostMs: number) => boolean;
}

/** Attachments asked for at once. */
const TEXTS_PER_PAGE = 64;
/** Attachments that are tried with their whole limit in one run, at most. */
const MOST_AGAIN = 1000;

/** Work that attachments which take too long may cost one run, and that of one message in a run, milliseconds. */
const RUN_MS = 30_000;
const MESSAGE_MS = 30_000;
/** Work of a first attempt: almost every attachment takes less. */
const FIRST_MS = 2_000;
const LEAST_FIRST_MS = 500;
/** Work of a further attempt, by size: a small file has little to read. */
const AGAIN_MS = 10_000;
const AGAIN_MS_PER_MIB = 10_000;

/**
 * Reads the text of attachments that have not been read yet, each distinct one once, and then indexes the messages that
 * have them: never both at a time, because the worker of either takes some 100 MB. Call it when the messages themselves
 * are searchable: at the end of a pass, or in idle time. An attachment that cannot be read is recorded as failed and not
 * tried again by this version.
 *
 * An attachment that takes too long delays others by little: the first attempt is short, and shorter the more of them
 * were given up in this run. The rest of its message goes behind all others. What was given up is tried again with its
 * whole limit at the end, as long as `RUN_MS` lasts, and in later runs.
 *
 * @returns how many were read, failures among them, and how many are left
 * @throws what the store throws; what `sources` throws other than damage or purges; `mime-worker-failed`
 */
export async function readAttachments(
  options: AttachmentReadingOptions,
): Promise<{ readonly read: number; readonly remaining: number }> {
  const { store, extractor, signal, makeRoom } = options;
  const run = new Run(options);
  let after = 0;
  while (!run.isOver) {
    const page = store.pending({ limit: TEXTS_PER_PAGE, after });
    if (page.length === 0) break;
    if (after === 0) await makeRoom();
    for (const attachment of page) {
      if (run.isOver) break;
      after = attachment.textId;
      if (!run.isSlow(attachment)) await run.read(attachment, run.firstMs);
    }
  }
  run.beginAgain();
  const again = run.isOver ? [] : store.pendingAgain(MOST_AGAIN);
  if (after === 0 && again.length > 0) await makeRoom();
  for (const attachment of again) {
    if (run.isOver || run.lostMs >= RUN_MS) break;
    if (run.isSlow(attachment)) continue;
    const limit = AGAIN_MS + (attachment.size / 2 ** 20) * AGAIN_MS_PER_MIB;
    await run.read(attachment, Math.min(limit, run.leftOf(attachment)));
  }
  if (after > 0 || again.length > 0) {
    await extractor.rest();
    await options.index(signal);
  }
  return { read: run.settled, remaining: store.counts().pending };
}

/** What one run has done so far. */
class Run {
  /** Attachments that are read, or have failed for good. */
  settled = 0;
  /** Work that came to nothing, because an attachment took too long. */
  lostMs = 0;
  /** Messages of which an attachment took too long. */
  #slow = new Set<MessageId>();
  /** Work for the attachments of a message. */
  readonly #spentMs = new Map<MessageId, number>();

  constructor(private readonly options: AttachmentReadingOptions) {}

  get isOver(): boolean {
    const { signal, goOn = () => true } = this.options;
    return signal.aborted || !goOn(this.lostMs);
  }

  get firstMs(): number {
    return Math.max(LEAST_FIRST_MS, Math.min(FIRST_MS, (RUN_MS - this.lostMs) / 8));
  }

  leftOf({ message }: PendingAttachment): number {
    return MESSAGE_MS - (this.#spentMs.get(message) ?? 0);
  }

  isSlow(attachment: PendingAttachment): boolean {
    return this.#slow.has(attachment.message) || this.leftOf(attachment) <= 0;
  }

  /** Starts the attempts with whole limits. */
  beginAgain(): void {
    this.lostMs = 0;
    this.#slow = new Set();
  }

  async read(attachment: PendingAttachment, limitMs: number): Promise<void> {
    const { message, textId } = attachment;
    let workMs = 0;
    const outcome = await outcomeOf(this.options, attachment, {
      limitMs,
      worked: (ms) => {
        workMs = ms;
      },
    });
    this.#spentMs.set(message, (this.#spentMs.get(message) ?? 0) + workMs);
    if (outcome?.status === 'failed' && outcome.reason === 'timeout') {
      this.lostMs += workMs;
      this.#slow.add(message);
    }
    if (outcome === null || this.options.signal.aborted) return;
    this.settled += this.options.store.settle(textId, outcome);
  }
}

/** Null for an attachment whose message was purged meanwhile. */
async function outcomeOf(
  options: AttachmentReadingOptions,
  attachment: PendingAttachment,
  work: Pick<AttachmentJob, 'limitMs' | 'worked'>,
): Promise<AttachmentOutcome | null> {
  const { sources, segments = localSegments, extractor } = options;
  const { form, hash, message, number } = attachment;
  try {
    return await fetching(segments, () => {
      const blob = blobOf(sources, hash);
      return extractor.extract(
        blob === null
          ? { form, number, source: sources.streamMessage(message), ...work }
          : { form, number: null, source: [blob], ...work },
      );
    });
  } catch (error) {
    if (hasCode(error, 'bytes-purged')) return null;
    const damage =
      hasCode(error, 'bytes-unknown') ||
      (error instanceof MailkeepError && error.family === 'damage');
    if (!damage) throw error;
    return { status: 'failed', reason: 'damaged' };
  }
}

/** An attachment that the log holds as a blob of its own, which spares taking its message apart; else null. */
function blobOf(sources: AttachmentSources, hash: BlobHash): Uint8Array | null {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return null;
    throw error;
  }
}
