import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/files/file-layer.ts';
import { SegmentCache } from '../archive/read/segment-cache.ts';
import type { RowDifference } from '../catalog/comparison.ts';
import type { ComparedCatalog, ImpliedCatalog } from '../catalog/implied.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { Findings } from './findings.ts';

/**
 * Compares the catalog with what the log implies, row by row, and returns how many rows differ. Lets others have their
 * turn now and then.
 *
 * @throws AbortError; `catalog-damaged`
 */
export async function compareCatalog(options: {
  readonly dir: string;
  readonly files: FileLayer;
  readonly implied: ImpliedCatalog;
  readonly catalog: ComparedCatalog;
  readonly findings: Findings;
  readonly signal: AbortSignal;
}): Promise<number> {
  const { dir, files, implied, catalog, findings, signal } = options;
  const segments = new SegmentCache(files, dir);
  let differing = 0;
  try {
    for (const row of implied.differences(catalog)) {
      if (row === 'turn') {
        await nextTurn();
        signal.throwIfAborted();
        continue;
      }
      if (isPurged(segments, row)) continue;
      differing += 1;
      const message = findings.keeps ? concerned(row, [catalog, implied]) : null;
      const { table, difference, columns, key } = row;
      findings.add({ what: 'catalog', table, difference, columns, key, message });
    }
  } finally {
    segments.forget();
  }
  return differing;
}

/** The catalog may remember where bytes were that a purge took out of the log since. */
function isPurged(segments: SegmentCache, { table, difference, position }: RowDifference): boolean {
  if (table !== 'records' || difference !== 'surplus' || position === null) return false;
  try {
    return segments.fetch({ ...position, offset: 0 }).state === 'purged';
  } catch (error) {
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

function concerned(
  { docid, key }: RowDifference,
  asked: readonly [ComparedCatalog, ImpliedCatalog],
) {
  for (const catalog of asked) {
    const found = docid === null ? undefined : catalog.byDocid(docid);
    if (found !== undefined) return found;
  }
  const { folder_id: folder, uid } = key;
  if (typeof folder !== 'number' || typeof uid !== 'number') return null;
  return (
    asked.map((catalog) => catalog.atPlace(folder, uid)).find((at) => at !== undefined) ?? null
  );
}
