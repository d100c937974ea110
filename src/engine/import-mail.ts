import { type ImportOptions, type ImportResult, runImport } from '../import/run-import.ts';
import { createIndexer, type IndexingProgress } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { openWriter } from './archive/writer.ts';
import type { EngineContext } from './context.ts';
import { tidy } from './pass/tidy.ts';

export interface ImportOrder extends Pick<ImportOptions, 'paths' | 'name'> {
  readonly dataDir: string;
  readonly onRead: (progress: { readonly messages: number; readonly added: number }) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

/**
 * Imports mail as a mailbox of its own, and makes it searchable. What was imported stays when the work is aborted.
 *
 * @throws what `openWriter` and `runImport` throw
 */
export async function importMail(
  context: EngineContext,
  { dataDir, paths, name, onRead, onIndex }: ImportOrder,
): Promise<ImportResult> {
  const { now, signal } = context;
  const writer = await openWriter(context, dataDir);
  try {
    const { catalog, log, sources, spoolDir } = writer;
    const startedAtCommit = catalog.reached().number;
    const result = await runImport({
      paths,
      name,
      log,
      catalog,
      spoolDir,
      now,
      after: (ms, act) => systemClock.after(ms, act),
      signal,
      onProgress: onRead,
    });
    await log.endThread();
    const extractor = openExtractorPool();
    try {
      await createIndexer({ store: catalog.index, sources, extractor, progress: onIndex }).all(
        signal,
      );
    } finally {
      await extractor.close();
    }
    await tidy(writer, startedAtCommit, now, signal);
    return result;
  } finally {
    await writer.close();
  }
}
