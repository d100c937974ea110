import type { AttachmentExtractor, AttachmentOutcome } from '../attachments/attachment-text.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';

/** An attachment whose text is wanted. */
interface Pending {
  readonly textId: number;
  readonly hash: BlobHash;
  readonly form: string;
  readonly message: MessageId;
  readonly number: number;
}

/** The part of the catalog's writer that reading attachments needs. */
export interface AttachmentStore {
  pending(options: { readonly limit: number; readonly after?: number }): readonly Pending[];
  counts(): { readonly pending: number };
  settle(textId: number, outcome: AttachmentOutcome): void;
}

/** Where bytes come from; the errors are those of the log's reader. */
export interface AttachmentSources {
  readBlob(hash: BlobHash): Uint8Array;
  streamMessage(id: MessageId): AsyncIterable<Uint8Array>;
}

export interface AttachmentReadingOptions {
  readonly store: AttachmentStore;
  readonly sources: AttachmentSources;
  readonly extractor: AttachmentExtractor;
  /** Indexes messages that are due: an indexer's `all`. */
  readonly index: (signal: AbortSignal) => Promise<void>;
  /** Frees memory for the attachments that are read next. */
  readonly makeRoom?: () => Promise<void>;
  /** When aborted, what was read by then is kept and the rest left pending. */
  readonly signal: AbortSignal;
  /** Asked before each attachment: false ends the round there. */
  readonly goOn?: () => boolean;
  readonly progress?: (progress: { readonly read: number; readonly remaining: number }) => void;
}

/** Attachments whose messages are indexed at once. */
const BATCH = 64;

/**
 * Reads the text of attachments that have not been read yet, each distinct one once, and indexes the messages that have
 * them. Call it when the messages themselves are searchable: at the end of a pass, or in idle time. An attachment that
 * cannot be read is recorded as failed and not tried again by this version.
 *
 * @returns how many were read, failures among them, and how many are left
 * @throws what the store throws; what `sources` throws other than damage or purges; `mime-worker-failed`
 */
export async function readAttachments(
  options: AttachmentReadingOptions,
): Promise<{ readonly read: number; readonly remaining: number }> {
  const { store, signal, goOn = () => true, progress } = options;
  const due = store.counts().pending;
  let read = 0;
  let after = 0;
  const stopped = (): boolean => signal.aborted || !goOn();
  while (!stopped()) {
    const page = store.pending({ limit: BATCH, after });
    if (page.length === 0) break;
    await options.makeRoom?.();
    for (const attachment of page) {
      if (stopped()) break;
      after = attachment.textId;
      const outcome = await outcomeOf(options, attachment);
      if (outcome === null || signal.aborted) continue;
      store.settle(attachment.textId, outcome);
      read++;
      progress?.({ read, remaining: Math.max(0, due - read) });
    }
    await options.index(signal);
  }
  return { read, remaining: store.counts().pending };
}

/** Null for an attachment whose message was purged meanwhile. */
async function outcomeOf(
  options: AttachmentReadingOptions,
  attachment: Pending,
): Promise<AttachmentOutcome | null> {
  const { sources, extractor } = options;
  const { form, hash, message, number } = attachment;
  try {
    const blob = blobOf(sources, hash);
    return await extractor.extract(
      blob === null
        ? { form, number, source: sources.streamMessage(message) }
        : { form, number: null, source: [blob] },
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

/** An attachment that the log holds as a blob of its own, which spares taking its message apart; else null. */
function blobOf(sources: AttachmentSources, hash: BlobHash): Uint8Array | null {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return null;
    throw error;
  }
}
