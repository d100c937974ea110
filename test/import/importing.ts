import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import { runImport } from '../../src/transfer/run-import.ts';
import { START, type StoredArchive } from '../export/stored-archive.ts';

/** Imports paths into an archive, as the command does. */
export async function importing(
  archive: StoredArchive,
  paths: readonly string[],
  name = 'Backup',
  signal = new AbortController().signal,
  onProgress: () => void = () => {},
) {
  const log = await openLogWriter({
    dir: archive.dir,
    now: () => START,
    expected: archive.catalog.reached(),
  });
  const spoolDir = path.join(archive.dir, 'tmp');
  mkdirSync(spoolDir, { recursive: true });
  try {
    return await runImport({
      paths,
      name,
      log,
      catalog: archive.catalog,
      spoolDir,
      now: () => START,
      after: (ms, act) => systemClock.after(ms, act),
      signal,
      onProgress,
    });
  } finally {
    await log.close();
  }
}
