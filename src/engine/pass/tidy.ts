import { dropOldGenerations } from '../../archive/write/compact-segments.ts';
import { sealClosedSegments } from '../../archive/write/sealer.ts';
import type { AttachmentExtractor } from '../../attachments/attachment-text.ts';
import { openAttachmentExtractor } from '../../attachments/extractor.ts';
import { hasCode, type MailkeepError } from '../../errors/mailkeep-error.ts';
import { readAttachments } from '../../indexer/attachment-texts.ts';
import type { Indexer } from '../../indexer/indexer.ts';
import type { Extractor } from '../../mime/extractor.ts';
import type { Writer } from '../archive/writer.ts';

/** What reads messages, and attachments: each of its threads takes some 100 MB. */
export interface SharedExtractors {
  readonly messages: Extractor;
  readonly attachments: AttachmentExtractor;
}

/** Reads the text of attachments when messages themselves are searchable. */
export interface AttachmentReading {
  /**
   * Continues where it stopped, for `forMs` milliseconds and until the current attachment is done; resolves with how
   * many attachments are left.
   */
  read(options: {
    readonly signal: AbortSignal;
    readonly forMs: number;
    readonly now: () => number;
  }): Promise<number>;
  close(): Promise<void>;
}

/**
 * For the writer, at the end of a pass or in idle time. Its thread starts when there is something to read.
 *
 * @param shared one that others use as well: `close` leaves it open
 */
export function attachmentReading(
  { catalog, sources, segments }: Pick<Writer, 'catalog' | 'sources' | 'segments'>,
  indexer: Pick<Indexer, 'all'>,
  messages: Pick<Extractor, 'rest'>,
  shared?: AttachmentExtractor,
): AttachmentReading {
  const extractor = shared ?? openAttachmentExtractor();
  return {
    async read({ signal, forMs, now }) {
      const until = now() + forMs;
      const { remaining } = await readAttachments({
        store: catalog.attachments,
        sources,
        segments,
        extractor,
        index: (stopped) => indexer.all(stopped),
        makeRoom: () => messages.rest(),
        signal,
        // Honest mail waits behind attachments that take too long, and has its time all the same.
        goOn: (lostMs) => now() < until + lostMs,
      });
      return remaining;
    },
    close: async () => {
      if (shared === undefined) await extractor.close();
    },
  };
}

/** From this size on a segment is worth sealing at the end of a pass: a quiet day's mail is not. */
const WORTH_SEALING_BYTES = 8 * 1024 * 1024;

/**
 * Seals what is closed, publishes it, lets go of what that replaced, and closes the gaps of a first sync. The replaced file goes
 * at once: the sealed one was read back and verified whole, and a reader that has the old one open keeps it, or
 * finds the new one when it looks again. Keeping it would double the disk a first sync needs.
 *
 * Returns what was met that is not what was written; such a segment stays as it is.
 */
export async function tidy(
  writer: Writer,
  startedAtCommit: number,
  now: () => number,
  signal: AbortSignal,
): Promise<readonly MailkeepError[]> {
  const { dataDir, log, sources, catalog, codec, sealer, segments } = writer;
  await log.rollIfLarger(WORTH_SEALING_BYTES);
  const { sealed, damaged } = await sealClosedSegments({
    dir: dataDir,
    before: log.segment,
    codec,
    sealer,
    signal,
  }).finally(() => sealer.close());
  const dropped = await dropOldGenerations({ dir: dataDir, now: now(), keepMs: 0, segments });
  if (sealed.length + dropped.length > 0) sources.refresh();
  if (startedAtCommit > 0 || signal.aborted) return damaged;
  try {
    catalog.compact();
  } catch (error) {
    // Somebody reads: the gaps fill with the mail to come.
    if (!hasCode(error, 'catalog-busy')) throw error;
  }
  return damaged;
}
