import { expect, test } from 'vitest';
import type { FileLayer } from '../../src/archive/file-layer.ts';
import { realFiles } from '../../src/archive/real-files.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { systemError } from '../archive/simulated-disk.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const SECTOR = 4_096;

/** A disk that does not give back one sector of each segment: whole reads that touch it fail. */
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
          if (position < to && position + target.length > from) throw systemError('EIO', file);
          return opened.read(target, position);
        },
      };
    },
  };
}

test.each([true, false])(
  'a sector that the disk does not give back is a finding, wherever it is (sealed: %s)',
  async (seal) => {
    const archive = new GrownArchive();
    try {
      const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
      await archive.grow(mail, seal);
      const { fileBytes, messages } = await verified(archive.dir);
      expect(messages).toBe(12);
      for (let bad = 0; bad * SECTOR < fileBytes; bad += 1) {
        for (const full of [true, false]) {
          const found = await verified(archive.dir, { files: withoutSector(bad), full });
          const unreadable = found.findings.filter(
            (finding) => finding.what === 'log' && finding.reason === 'unreadable',
          );
          const first = found.findings.some(
            (finding) => finding.what === 'log' && finding.reason === 'segment-header',
          );
          expect({ bad, full, told: unreadable.length > 0 || first }).toEqual({
            bad,
            full,
            told: true,
          });
          expect(found.tail).toBeNull();
        }
      }
    } finally {
      archive.remove();
    }
  },
);
