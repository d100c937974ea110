import type { FileLayer } from './file-layer.ts';
import { logFolder, segmentPath } from './layout.ts';
import { realFiles } from './real-files.ts';
import { listSegments, openInForce } from './segment-files.ts';

/** How long a generation stays after a newer one took its place: readers may still be at it. */
export const KEEP_OLD_MS = 24 * 60 * 60 * 1000;

/**
 * Removes the generations of each segment that a sealed one has replaced for at least a day (`keepMs`), and returns their
 * paths. The caller holds the archive's lock.
 */
export async function dropOldGenerations(options: {
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly files?: FileLayer;
  readonly keepMs?: number;
}): Promise<string[]> {
  const { dir, now, files = realFiles, keepMs = KEEP_OLD_MS } = options;
  const dropped: string[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    if (generations.length < 2) continue;
    const opened = openInForce(files, dir, segment, generations);
    opened.file.close();
    if (opened.sealed === undefined || now - files.modifiedAt(opened.path) < keepMs) continue;
    for (const generation of generations.filter((old) => old < opened.name.generation)) {
      const path = segmentPath(dir, { segment, generation });
      await files.remove(path);
      dropped.push(path);
    }
  }
  if (dropped.length > 0) await files.syncFolder(logFolder(dir));
  return dropped;
}
