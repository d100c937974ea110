import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { hasCode } from '../errors/mailkeep-error.ts';
import { type ImportOrder, type ImportResult, runImport } from '../import/run-import.ts';
import { createIndexer, type IndexingProgress } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { openReaderOf, type Reader } from './archive/reader.ts';
import { openWriter, type Writer } from './archive/writer.ts';
import type { EngineContext } from './context.ts';
import { NO_NUMBERS } from './pass/run-record.ts';
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
): Promise<ImportResult & { readonly run: number | null }> {
  const { now, signal } = context;
  const writer = await openWriter(context, mail.dataDir);
  try {
    const { catalog, log, sources, spoolDir } = writer;
    const startedAtCommit = catalog.reached().number;
    const record = beginRun(writer, mail.name, now());
    const result = await runImport({ ...orderOf(context, mail), spoolDir, log, catalog });
    const run = record(result, now());
    await log.endThread();
    const extractor = openExtractorPool();
    try {
      const { onIndex: progress } = mail;
      await createIndexer({ store: catalog.index, sources, extractor, progress }).all(signal);
    } finally {
      await extractor.close();
    }
    await tidy(writer, startedAtCommit, now, signal);
    return { ...result, run };
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

/**
 * Records an import before it writes anything: one that is killed can be undone as well.
 *
 * @returns completes the record, and returns the number by which the import is undone: null if nothing was added
 */
function beginRun({ catalog, state }: Writer, mailbox: string, startedAt: number) {
  const first = catalog.reached().number + 1;
  const frame = { kind: 'import', account: null, startedAt, ...NO_NUMBERS, mailboxes: 1, mailbox };
  const commits = { first, last: null };
  const id = state.runs.keep({ ...frame, endedAt: startedAt, outcome: 'interrupted', commits });
  return ({ added, bytes, failures, interrupted }: ImportResult, endedAt: number) => {
    const last = catalog.reached().number;
    const counts = { added, bytes, failures: failures.length, commits: { first, last } };
    const outcome = interrupted ? ('interrupted' as const) : ('done' as const);
    state.runs.keep({ ...frame, ...counts, endedAt, outcome }, id);
    return added === 0 ? null : first;
  };
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
