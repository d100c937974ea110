import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { logFolder, parseSegmentName } from '../../src/archive/format.ts';
import { acquireLock } from '../../src/archive/lock.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { sealClosedSegments } from '../../src/archive/seal.ts';

/** What the log takes on disk once every segment is sealed and replaced files are gone. */
export interface SealedLog {
  readonly logBytes: number;
  /** How long the sealing of what the sync had left hot took. */
  readonly sealMs: number;
}

/**
 * Seals what is not sealed yet, as the program does with full segments, and adds up. Of a segment only the file in force
 * counts: the one before it goes after a day.
 */
export async function sealLog(dir: string): Promise<SealedLog> {
  const lock = acquireLock(dir);
  try {
    const started = performance.now();
    const writer = await openLogWriter({ dir, now: Date.now });
    await writer.rollIfLarger(1);
    const { damaged } = await sealClosedSegments({ dir, before: writer.segment });
    const sealMs = performance.now() - started;
    await writer.close();
    const [damage] = damaged;
    if (damage !== undefined) throw damage;
    return {
      logBytes: sum(filesInForce(logFolder(dir))),
      sealMs,
    };
  } finally {
    lock.release();
  }
}

/** What the catalog takes on disk. */
export function catalogBytes(dir: string): number {
  const names = readdirSync(dir).filter((name) => /^catalog\.sqlite(?:-wal)?$/.test(name));
  return sum(names.map((name) => join(dir, name)));
}

function filesInForce(folder: string): string[] {
  const latest = new Map<number, { generation: number; path: string }>();
  for (const name of readdirSync(folder)) {
    const file = parseSegmentName(name);
    if (file === undefined) continue;
    if (file.generation > (latest.get(file.segment)?.generation ?? 0))
      latest.set(file.segment, { generation: file.generation, path: join(folder, name) });
  }
  return [...latest.values()].map(({ path }) => path);
}

/** Bytes as the file system allots them. */
function sum(paths: readonly string[]): number {
  return paths.reduce((total, path) => total + statSync(path).blocks * 512, 0);
}
