import { openAttachmentExtractor } from '../attachments/extractor.ts';
import { type RebuildOptions, type RebuildResult, rebuildCatalog } from '../indexer/rebuild.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';

/**
 * Rebuilds the catalog of an archive, attachments included, with extractors of its own. The caller holds the
 * archive's lock.
 *
 * @throws what `rebuildCatalog` throws
 */
export async function rebuild(
  options: Omit<RebuildOptions, 'extractor' | 'attachments'>,
): Promise<RebuildResult> {
  const extractor = openExtractorPool();
  const attachments = openAttachmentExtractor();
  try {
    return await rebuildCatalog({ ...options, extractor, attachments });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}
