import type { LogReader } from '../archive/read/log-reader.ts';
import { localSegments } from '../archive/read/segment-files.ts';
import { fetching, type SegmentStore } from '../archive/read/segment-store.ts';
import type {
  AttachmentExtractor,
  AttachmentJob,
  AttachmentOutcome,
} from '../attachments/attachment-text.ts';
import type { AttachmentWriter, PendingAttachment } from '../catalog/attachment-texts.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';

/** Where bytes come from. */
type AttachmentSources = Pick<LogReader, 'readBlob' | 'streamMessage'>;

export interface AttachmentReadingOptions {
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
const PAGE = 64;
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
    const page = store.pending({ limit: PAGE, after });
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
