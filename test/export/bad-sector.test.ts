import path from 'node:path';
import { expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { withoutSector } from '../archive/without-sector.ts';
import { exporting, StoredArchive } from './stored-archive.ts';

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
        files: withoutSector(bad, 'short'),
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
