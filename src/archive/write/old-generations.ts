import { hasCode } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { logFolder, segmentPath } from '../format/layout.ts';
import { listSegments, openInForce } from '../read/segment-files.ts';

/**
 * Removes the generations of each segment that a sealed one has replaced for at least `keepMs`, and returns their
 * paths. The caller holds the archive's lock.
 */
export async function dropOldGenerations(options: {
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly files?: FileLayer;
  readonly keepMs: number;
}): Promise<string[]> {
  const { dir, now, files = realFiles, keepMs } = options;
  const dropped: string[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    const replaced = replacedGenerations(files, dir, segment, generations, now - keepMs);
    for (const generation of replaced) {
      const path = segmentPath(dir, { segment, generation });
      await files.remove(path);
      dropped.push(path);
    }
  }
  if (dropped.length > 0) await files.syncFolder(logFolder(dir));
  return dropped;
}

function replacedGenerations(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
  before: number,
): readonly number[] {
  if (generations.length < 2) return [];
  try {
    const { file, sealed, path, name } = openInForce(files, dir, segment, generations);
    file.close();
    if (sealed === undefined || Math.floor(files.modifiedAt(path)) > before) return [];
    return generations.filter((generation) => generation < name.generation);
  } catch (error) {
    // Where no generation is whole, each may hold what another has lost.
    if (hasCode(error, 'log-damaged')) return [];
    throw error;
  }
}
