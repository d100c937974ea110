import path from 'node:path';
import { expect, test } from 'vitest';
import type { FileLayer } from '../../src/archive/file-layer.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { realFiles } from '../../src/archive/real-files.ts';
import { runExport } from '../../src/export/run-export.ts';
import { systemError } from '../archive/simulated-disk.ts';
import { exporting, StoredArchive } from './stored-archive.ts';

const SECTOR = 4_096;

/** A disk that does not give back one sector of each segment: reads end before it, and fail at it. */
function withoutSector(bad: number): FileLayer {
  const [from, to] = [bad * SECTOR, (bad + 1) * SECTOR];
  return {
    ...realFiles,
    open(file, access) {
      const opened = realFiles.open(file, access);
      if (!file.endsWith('.seg')) return opened;
      return {
        ...opened,
        read(target, position) {
          if (position >= to || position + target.length <= from)
            return opened.read(target, position);
          if (position >= from) throw systemError('EIO', file);
          return opened.read(target.subarray(0, from - position), position);
        },
      };
    },
  };
}

test('a sector that the disk does not give back costs the messages in it, and no others', async () => {
  const archive = await StoredArchive.create();
  try {
    const letters = Array.from({ length: 30 }, (_, i) => ({
      folder: 'INBOX',
      source: Buffer.from(`Subject: ${i}\r\n\r\n${`line ${i} of many\r\n`.repeat(150)}`),
    }));
    await archive.store(letters);
    for (const bad of [2, 7, 11]) {
      const sources = openLogReader({
        dir: archive.dir,
        locator: archive.catalog.locator,
        files: withoutSector(bad),
      });
      try {
        const to = path.join(archive.dir, `out-${bad}`);
        const result = await runExport({ ...exporting(archive, to, 'eml'), sources });
        expect(result).toMatchObject({ places: 30, exported: 30 - result.damaged });
        expect(result.damaged).toBeGreaterThan(0);
        // A sector has parts of a few records of about two kilobytes.
        expect(result.damaged).toBeLessThan(12);
        expect(result.failures).toHaveLength(result.damaged);
      } finally {
        sources.close();
      }
    }
  } finally {
    archive.remove();
  }
});
