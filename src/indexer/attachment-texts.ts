import type { LogReader } from '../archive/read/log-reader.ts';
import { localSegments } from '../archive/read/segment-files.ts';
import { fetching, type SegmentStore } from '../archive/read/segment-store.ts';
import type { AttachmentExtractor, AttachmentOutcome } from '../attachments/attachment-text.ts';
import type { AttachmentWriter, PendingAttachment } from '../catalog/attachment-texts.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { BlobHash } from '../mail/words.ts';

/** Where bytes come from. */
type AttachmentSources = Pick<LogReader, 'readBlob' | 'streamMessage'>;

export interface AttachmentReadingOptions {
  readonly store: Pick<AttachmentWriter, 'pending' | 'counts' | 'settle'>;
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
  /** Asked before each attachment: false ends the round there. */
  readonly goOn?: () => boolean;
}

/** Attachments asked for at once. */
const PAGE = 64;

/**
 * Reads the text of attachments that have not been read yet, each distinct one once, and then indexes the messages that
 * have them: never both at a time, because the worker of either takes some 100 MB. Call it when the messages themselves are searchable: at the end of a pass, or in idle time. An attachment that
 * cannot be read is recorded as failed and not tried again by this version.
 *
 * @returns how many were read, failures among them, and how many are left
 * @throws what the store throws; what `sources` throws other than damage or purges; `mime-worker-failed`
 */
export async function readAttachments(
  options: AttachmentReadingOptions,
): Promise<{ readonly read: number; readonly remaining: number }> {
  const { store, extractor, signal, goOn = () => true } = options;
  let read = 0;
  let after = 0;
  const stopped = (): boolean => signal.aborted || !goOn();
  while (!stopped()) {
    const page = store.pending({ limit: PAGE, after });
    if (page.length === 0) break;
    if (after === 0) await options.makeRoom();
    for (const attachment of page) {
      if (stopped()) break;
      after = attachment.textId;
      const outcome = await outcomeOf(options, attachment);
      if (outcome === null || signal.aborted) continue;
      store.settle(attachment.textId, outcome);
      read++;
    }
  }
  if (after > 0) {
    await extractor.rest();
    await options.index(signal);
  }
  return { read, remaining: store.counts().pending };
}

/** Null for an attachment whose message was purged meanwhile. */
async function outcomeOf(
  options: AttachmentReadingOptions,
  attachment: PendingAttachment,
): Promise<AttachmentOutcome | null> {
  const { sources, segments = localSegments, extractor } = options;
  const { form, hash, message, number } = attachment;
  try {
    return await fetching(segments, () => {
      const blob = blobOf(sources, hash);
      return extractor.extract(
        blob === null
          ? { form, number, source: sources.streamMessage(message) }
          : { form, number: null, source: [blob] },
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
