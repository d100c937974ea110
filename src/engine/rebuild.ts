import type { AttachmentExtractor } from '../attachments/attachment-text.ts';
import { openAttachmentExtractor } from '../attachments/extractor.ts';
import { type RebuildOptions, type RebuildResult, rebuildCatalog } from '../indexer/rebuild.ts';
import type { Extractor } from '../mime/extractor.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';

/** Opens extractors of messages and of attachments for as long as `act` takes. */
export async function withExtractors<T>(
  act: (extractor: Extractor, attachments: AttachmentExtractor) => Promise<T>,
): Promise<T> {
  const extractor = openExtractorPool();
  const attachments = openAttachmentExtractor();
  try {
    return await act(extractor, attachments);
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

/**
 * Rebuilds the catalog of an archive, attachments included, with extractors of its own. The caller holds the
 * archive's lock.
 *
 * @throws what `rebuildCatalog` throws
 */
export function rebuild(
  options: Omit<RebuildOptions, 'extractor' | 'attachments'>,
): Promise<RebuildResult> {
  return withExtractors((extractor, attachments) =>
    rebuildCatalog({ ...options, extractor, attachments }),
  );
}
