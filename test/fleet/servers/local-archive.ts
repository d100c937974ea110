import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { realFiles } from '../../../src/archive/file-system.ts';
import { sealSegment } from '../../../src/archive/seal.ts';
import { Positions } from '../../archive/positions.ts';
import { openOn, writeBatches } from '../../archive/sample-log.ts';

/**
 * Writes an archive to a folder of its own: a sealed segment, one that is closed and not sealed, and an open one, with two
 * commits each. It has no catalog.
 *
 * @returns the folder
 */
export async function localArchive(): Promise<string> {
  const dir = mkdtempSync(path.join(tmpdir(), 'local-'));
  const writer = await openOn(realFiles, { dir });
  const known = new Positions();
  for (const segment of [1, 2, 3]) {
    await writeBatches(writer, known, 2, segment * 30);
    if (segment < 3) await writer.rollIfLarger(1);
  }
  await writer.close();
  await sealSegment({ dir, segment: 1, codec: 'zlib' });
  return dir;
}

/** Every file of a folder with its SHA-256; the files of the lock play no part. */
export function filesOf(dir: string): Readonly<Record<string, string>> {
  const names = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('lock'))
    .map((entry) => path.relative(dir, path.join(entry.parentPath, entry.name)))
    .toSorted();
  const hashOf = (name: string) =>
    createHash('sha256')
      .update(readFileSync(path.join(dir, name)))
      .digest('hex');
  return Object.fromEntries(names.map((name) => [name, hashOf(name)]));
}
