import type { LogReader } from '../archive/log-reader.ts';
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

export type SourceStore = Pick<LogReader, 'readSource'>;

export interface RoundOptions {
  readonly store: Pick<IndexWriter, 'index'>;
  readonly sources: SourceStore;
  readonly extractor: Extractor;
  /** On abort, extracted messages are indexed and the rest remain pending. */
  readonly signal: AbortSignal;
  /** Leaves damaged messages pending instead of indexing their listing. */
  readonly leaveDamaged?: boolean;
}

interface RoundCounts {
  readonly indexed: number;
  readonly unparsed: number;
  /** Messages with damaged bytes, of which only the listing is indexed. */
  readonly damaged: readonly MessageId[];
}

const MAX_DOCUMENTS = 500;
const REPORT_EVERY = 20;
/** Approximate size of body text per transaction, in bytes. */
const MAX_TEXT = 4 * 1024 * 1024;
/** Maximum total size of sources in progress, in bytes, unless a single message is larger. */
const MAX_SOURCE_BYTES = 6 * 1024 * 1024;

/** Extracts and indexes messages. Holds only the sources in progress and one transaction's text in memory. */
export class IndexingRound {
  #documents: IndexedDocument[] = [];
  #textSize = 0;
  #indexed = 0;
  #unparsed = 0;
  readonly #damaged: MessageId[] = [];
  #inFlight = 0;
  #inFlightBytes = 0;
  #failure: { readonly error: unknown } | null = null;
  #isCancelled = false;
  #wake: (() => void) | null = null;

  constructor(
    private readonly options: RoundOptions,
    /** Called after each transaction, and after every few messages in between. */
    private readonly progressed: (counts: RoundCounts & { readonly extracted: number }) => void,
  ) {}

  /**
   * Starts extracting each message when there is room. Returns while the last ones are still running, or immediately
   * after an abort.
   *
   * @throws the round's error
   */
  async feed(messages: Iterable<PendingMessage>): Promise<void> {
    const { width } = this.options.extractor;
    for (const message of messages) {
      const isFull = () =>
        this.#inFlight > 0 &&
        (this.#inFlight >= width || this.#inFlightBytes + message.size > MAX_SOURCE_BYTES);
      await this.#waitWhile(isFull);
      if (this.#isStopped()) break;
      this.#start(message);
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  /**
   * Waits for running extractions and indexes them. After an abort, indexes only the finished ones.
   *
   * @throws the round's error
   */
  async finish(): Promise<void> {
    await this.#waitWhile(() => this.#inFlight > 0);
    if (this.#failure !== null) throw this.#failure.error;
    this.#flush();
  }

  cancel(): void {
    this.#isCancelled = true;
  }

  counts(): RoundCounts {
    return { indexed: this.#indexed, unparsed: this.#unparsed, damaged: this.#damaged };
  }

  #isStopped(): boolean {
    return this.#isCancelled || this.#failure !== null || this.options.signal.aborted;
  }

  /** Resolves when enough extractions have finished, or the round should stop. */
  async #waitWhile(isBusy: () => boolean): Promise<void> {
    if (!isBusy() || this.#isStopped()) return;
    const { signal } = this.options;
    const wake = () => this.#wake?.();
    signal.addEventListener('abort', wake);
    try {
      while (isBusy() && !this.#isStopped()) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#wake = null;
      signal.removeEventListener('abort', wake);
    }
  }

  #start(message: PendingMessage): void {
    const bytes = Math.min(message.size, DEFAULT_LIMITS.sourceBytes);
    this.#inFlight++;
    this.#inFlightBytes += bytes;
    this.#extracted(message)
      .then((entry) => this.#land(message, entry))
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#inFlight--;
        this.#inFlightBytes -= bytes;
        this.#wake?.();
      });
  }

  /** Returns null for a message that must not be indexed: one that was purged, or is damaged and left for later. */
  async #extracted({ id }: PendingMessage): Promise<IndexEntry | null> {
    const { sources } = this.options;
    let raw: { readonly bytes: Uint8Array; readonly cut: boolean };
    try {
      raw = sources.readSource(id, DEFAULT_LIMITS.sourceBytes);
    } catch (error) {
      if (hasCode(error, 'bytes-purged')) return null;
      // After a rebuild from a damaged log, a message in the catalog can lack a position.
      const damage =
        hasCode(error, 'bytes-unknown') ||
        (error instanceof MailkeepError && error.family === 'damage');
      if (!damage) throw error;
      if (this.options.leaveDamaged === true) return null;
      // Indexing the listing keeps one bad sector from hiding other messages.
      this.#damaged.push(id);
      return indexEntry(emptyExtraction('damaged'));
    }
    return this.options.extractor.extract({ id, source: raw.bytes, cut: raw.cut });
  }

  #land({ docid }: PendingMessage, entry: IndexEntry | null): void {
    // After an abort, the round may be over and its store closed.
    if (entry === null || this.#isStopped()) return;
    this.#documents.push({ docid, entry });
    this.#textSize += entry.body.length;
    if (this.#documents.length >= MAX_DOCUMENTS || this.#textSize >= MAX_TEXT) this.#flush();
    else if (this.#documents.length % REPORT_EVERY === 0) this.#report();
  }

  #flush(): void {
    if (this.#documents.length === 0) return;
    // FTS5 flushes its buffer whenever a rowid decreases.
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
  /** Includes unparsed messages. They become searchable a moment later. */
  readonly indexed: number;
  readonly unparsed: number;
  readonly remaining: number;
}

interface IndexPendingOptions extends RoundOptions {
  readonly store: Pick<IndexWriter, 'pending' | 'pendingCount' | 'index' | 'mode'>;
  /** By default, all pending messages. */
  readonly limit?: number | undefined;
  readonly progress?: ((progress: IndexingProgress) => void) | undefined;
}

type IndexingResult = RoundCounts & Pick<IndexingProgress, 'remaining'>;

const PAGE = 1000;
/** Rounds of at least this many messages merge index segments only at the end. */
export const BULK_MESSAGES = 5000;

/**
 * Extracts and indexes pending messages, newest first, a few hundred per transaction. Messages that arrive during the
 * round wait for the next one.
 *
 * @throws errors from the store; errors from `sources` other than damage or purges; `mime-worker-failed`
 */
export async function indexPending(options: IndexPendingOptions): Promise<IndexingResult> {
  const count = options.store.pendingCount();
  if (count === 0) return { indexed: 0, unparsed: 0, remaining: 0, damaged: [] };
  const { store, limit = Number.POSITIVE_INFINITY, progress } = options;
  const bulk = Math.min(count, limit) >= BULK_MESSAGES;
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

function* newestFirst(store: Pick<IndexWriter, 'pending'>, max: number): Iterable<PendingMessage> {
  let remaining = max;
  let before = Number.MAX_SAFE_INTEGER;
  while (remaining > 0) {
    const limit = Math.min(PAGE, remaining);
    const page = store.pending({ limit, before });
    for (const message of page) {
      yield message;
      before = message.docid;
    }
    remaining -= page.length;
    if (page.length < limit) return;
  }
}

/** Makes stored messages searchable, a few at a time or all at once. */
export interface Indexer {
  /** Indexes at most `limit` messages, newest first. Resolves with the number left. */
  some(limit: number, signal: AbortSignal): Promise<number>;
  /** Indexes everything that is pending or becomes pending before it finishes. */
  all(signal: AbortSignal): Promise<void>;
  totals(): Omit<IndexingResult, 'remaining'>;
}

/**
 * Creates a catalog's only indexer, whose rounds run one at a time. The caller closes the catalog and the extractor.
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
    // A failed round does not block the next one.
    previous = run.catch(() => undefined);
    return run;
  };
  return {
    some: async (limit, signal) => (await round(signal, limit)).remaining,
    async all(signal) {
      for (;;) {
        const { indexed: count, remaining } = await round(signal);
        // Some messages, such as purged ones, cannot be indexed. A round that has no effect ends the loop.
        if (remaining === 0 || count === 0 || signal.aborted) return;
      }
    },
    totals: () => ({ indexed, unparsed, damaged: [...damaged] }),
  };
}

type AttachmentSources = Pick<LogReader, 'readBlob' | 'streamMessage'>;

interface AttachmentReadingOptions {
  readonly store: Pick<AttachmentWriter, 'pending' | 'pendingAgain' | 'counts' | 'settle'>;
  readonly sources: AttachmentSources;
  readonly extractor: AttachmentExtractor;
  /** Indexes messages that are due, like `Indexer.all`. */
  readonly index: (signal: AbortSignal) => Promise<void>;
  /** Frees memory used by message extraction while attachments are read. */
  readonly makeRoom: () => Promise<void>;
  /** On abort, finished text is kept and the rest remains pending. */
  readonly signal: AbortSignal;
  /** Called before each attachment. The run ends if it returns false. `lostMs` is the time lost to timeouts. */
  readonly goOn?: (lostMs: number) => boolean;
}

const TEXTS_PER_PAGE = 64;
/** Maximum number of attachments retried per run, with their full time limit. */
const MAX_AGAIN = 1000;

/** Milliseconds that a run may lose to timeouts, and that it may spend on any one message. */
const RUN_MS = 30_000;
const MESSAGE_MS = 30_000;
/** Time limit for the first attempt. Almost every attachment takes less. */
const FIRST_MS = 2_000;
const MIN_FIRST_MS = 500;
/** Time limit for subsequent attempts, which increases with attachment size. */
const AGAIN_MS = 10_000;
const AGAIN_MS_PER_MIB = 10_000;

/**
 * Reads the text of each distinct unread attachment, then indexes the messages. The two steps never overlap, because
 * each worker takes about 100 MB. Call this once the messages are searchable: at the end of a sync run, or when idle.
 * An unreadable attachment is recorded as failed, and this version does not retry it.
 *
 * Slow attachments barely delay others. The first attempt has a short limit, which shrinks with each timeout in the
 * run. After a timeout, the message's other attachments wait. At the end, and in later runs, timed-out attachments are
 * retried with their full limit for up to `RUN_MS`.
 *
 * @returns the number of attachments read, including failures, and the number left
 * @throws errors from the store; errors from `sources` other than damage or purges; `mime-worker-failed`
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
  const retries = run.isOver ? [] : store.pendingAgain(MAX_AGAIN);
  if (after === 0 && retries.length > 0) await makeRoom();
  for (const attachment of retries) {
    if (run.isOver || run.lostMs >= RUN_MS) break;
    if (run.isSlow(attachment)) continue;
    const limit = AGAIN_MS + (attachment.size / 2 ** 20) * AGAIN_MS_PER_MIB;
    await run.read(attachment, Math.min(limit, run.leftOf(attachment)));
  }
  if (after > 0 || retries.length > 0) {
    await extractor.rest();
    await options.index(signal);
  }
  return { read: run.settled, remaining: store.counts().pending };
}

class Run {
  settled = 0;
  lostMs = 0;
  /** Messages with an attachment that timed out. */
  #slow = new Set<MessageId>();
  readonly #spentMs = new Map<MessageId, number>();

  constructor(private readonly options: AttachmentReadingOptions) {}

  get isOver(): boolean {
    const { signal, goOn = () => true } = this.options;
    return signal.aborted || !goOn(this.lostMs);
  }

  get firstMs(): number {
    return Math.max(MIN_FIRST_MS, Math.min(FIRST_MS, (RUN_MS - this.lostMs) / 8));
  }

  leftOf({ message }: PendingAttachment): number {
    return MESSAGE_MS - (this.#spentMs.get(message) ?? 0);
  }

  isSlow(attachment: PendingAttachment): boolean {
    return this.#slow.has(attachment.message) || this.leftOf(attachment) <= 0;
  }

  /** Gives all subsequent attempts their full time limits. */
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

/** Returns null if the message has since been purged. */
async function outcomeOf(
  options: AttachmentReadingOptions,
  attachment: PendingAttachment,
  work: Pick<AttachmentJob, 'limitMs' | 'worked'>,
): Promise<AttachmentOutcome | null> {
  const { sources, extractor } = options;
  const { form, hash, message, number } = attachment;
  try {
    const blob = blobOf(sources, hash);
    return await extractor.extract(
      blob === null
        ? { form, number, source: sources.streamMessage(message), ...work }
        : { form, number: null, source: [blob], ...work },
    );
  } catch (error) {
    if (hasCode(error, 'bytes-purged')) return null;
    const damage =
      hasCode(error, 'bytes-unknown') ||
      (error instanceof MailkeepError && error.family === 'damage');
    if (!damage) throw error;
    return { status: 'failed', reason: 'damaged' };
  }
}

/** Returns an attachment that the log stores as a single blob, so that its message need not be parsed. */
function blobOf(sources: AttachmentSources, hash: BlobHash): Uint8Array | null {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return null;
    throw error;
  }
}
