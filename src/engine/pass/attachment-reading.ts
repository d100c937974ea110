import { openAttachmentExtractor } from '../../attachments/extractor.ts';
import { readAttachments } from '../../indexer/attachment-texts.ts';
import type { Indexer } from '../../indexer/indexer.ts';
import type { Writer } from '../archive/writer.ts';

/** Reads the text of attachments when messages themselves are searchable. */
export interface AttachmentReading {
  /**
   * Goes on where it stopped, for `forMs` milliseconds and the attachment it is on then; resolves with how many
   * attachments are left.
   */
  read(options: {
    readonly signal: AbortSignal;
    readonly forMs: number;
    readonly now: () => number;
  }): Promise<number>;
  close(): Promise<void>;
}

/** For the writer, at the end of a pass or in idle time. Its thread starts when there is something to read. */
export function attachmentReading(
  { catalog, sources }: Pick<Writer, 'catalog' | 'sources'>,
  indexer: Pick<Indexer, 'all'>,
): AttachmentReading {
  const extractor = openAttachmentExtractor();
  return {
    async read({ signal, forMs, now }) {
      const until = now() + forMs;
      const { remaining } = await readAttachments({
        store: catalog.attachments,
        sources,
        extractor,
        index: (stopped) => indexer.all(stopped),
        signal,
        goOn: () => now() < until,
      });
      return remaining;
    },
    close: () => extractor.close(),
  };
}
