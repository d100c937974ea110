import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { hasCode } from '../errors/mailkeep-error.ts';
import { type ImportOrder, type ImportResult, runImport } from '../import/run-import.ts';
import { createIndexer, type IndexingProgress } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { openReaderOf, type Reader } from './archive/reader.ts';
import { openWriter } from './archive/writer.ts';
import type { EngineContext } from './context.ts';
import { tidy } from './pass/tidy.ts';

export interface MailToImport extends Pick<ImportOrder, 'paths' | 'name'> {
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
  mail: MailToImport,
): Promise<ImportResult> {
  const { now, signal } = context;
  const writer = await openWriter(context, mail.dataDir);
  try {
    const { catalog, log, sources, spoolDir } = writer;
    const startedAtCommit = catalog.reached().number;
    const result = await runImport({ ...orderOf(context, mail), spoolDir, log, catalog });
    await log.endThread();
    const extractor = openExtractorPool();
    try {
      const { onIndex: progress } = mail;
      await createIndexer({ store: catalog.index, sources, extractor, progress }).all(signal);
    } finally {
      await extractor.close();
    }
    await tidy(writer, startedAtCommit, now, signal);
    return result;
  } finally {
    await writer.close();
  }
}

/**
 * Returns what an import would do, without writing to the archive. Zip files are unpacked into the system's folder for
 * temporary files.
 *
 * @param isCompared false leaves out what the archive has: all mail counts as new
 * @throws what `openReaderOf` throws where there is an archive, and `runImport`
 */
export async function previewImport(
  context: EngineContext,
  mail: MailToImport,
  isCompared: boolean,
): Promise<ImportResult> {
  const reader = isCompared ? readerOf(mail.dataDir) : null;
  const spoolDir = mkdtempSync(path.join(tmpdir(), 'mailkeep-import-'));
  try {
    const catalog = reader?.catalog ?? null;
    return await runImport({ ...orderOf(context, mail), spoolDir, log: null, catalog });
  } finally {
    rmSync(spoolDir, { recursive: true, force: true });
    reader?.close();
  }
}

/** Null where there is no archive yet. */
function readerOf(dataDir: string): Reader | null {
  try {
    return openReaderOf(dataDir);
  } catch (error) {
    if (hasCode(error, 'usage-no-archive')) return null;
    throw error;
  }
}

function orderOf(
  { now, signal }: EngineContext,
  { paths, name, onRead: onProgress }: MailToImport,
): Omit<ImportOrder, 'spoolDir'> {
  const after = (ms: number, act: () => void) => systemClock.after(ms, act);
  return { paths, name, now, after, signal, onProgress };
}
