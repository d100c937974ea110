import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../../archive/files/real-files.ts';
import { acquireLock } from '../../archive/write/lock.ts';
import {
  type Compacted,
  compactPurged,
  decidedPurge,
  dropAsides,
  endPurge,
} from '../../retention/carry-out.ts';
import { scrubState } from '../../state/state-file.ts';
import type { Writer } from '../archive/writer.ts';
import type { EngineContext } from '../context.ts';
import { rebuild } from '../rebuild.ts';

/**
 * Carries out a purge that was decided, whichever command decided it. Where something was to be forgotten, it closes
 * the writer it was given, since the catalog is rebuilt.
 *
 * @returns what was rewritten, and whether the writer is closed; undefined where nothing was decided
 * @throws purge-interrupted, disk-full and its like: the same command continues
 */
export async function finishPurge(
  context: EngineContext,
  writer: Writer,
): Promise<(Compacted & { readonly closed: boolean }) | undefined> {
  const { dataDir } = writer;
  const { signal, report } = context;
  const work = await decidedPurge(realFiles, dataDir);
  if (work === undefined) return undefined;
  report({ event: 'purging', messages: work.messages.length });
  const compacted = await compactPurged(realFiles, dataDir, writer, work, signal);
  if (work.reason === 'pruned') {
    await endPurge(realFiles, dataDir);
    return { ...compacted, closed: false };
  }
  await writer.close();
  const lock = acquireLock(dataDir);
  try {
    await dropAsides(realFiles, dataDir);
    report({ event: 'rebuilding-catalog', because: 'purge' });
    await rebuildClean(dataDir, signal);
    scrubState(dataDir);
    await endPurge(realFiles, dataDir);
  } finally {
    lock.release();
  }
  return { ...compacted, closed: true };
}

/** A new file, in which no page has what was forgotten, and none of those that repairs put aside. */
async function rebuildClean(dir: string, signal: AbortSignal): Promise<void> {
  await rebuild({ dir, signal });
  for (const name of readdirSync(dir)) {
    if (name.startsWith('catalog.sqlite.')) rmSync(path.join(dir, name));
  }
  await realFiles.syncFolder(dir);
}
