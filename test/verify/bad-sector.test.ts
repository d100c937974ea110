import { cpSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { segmentPath } from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { copyLog } from '../../src/copies/copy-log.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { verifyArchive } from '../../src/verify/verify-archive.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { SECTOR, withoutSector } from '../archive/without-sector.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

function segmentOf({ dir }: GrownArchive, sealed: boolean): string {
  return segmentPath(dir, { segment: 1, generation: sealed ? 2 : 1 });
}

test.each([true, false])(
  'a sector that the disk does not give back is a finding, wherever it is (sealed: %s)',
  async (seal) => {
    const archive = new GrownArchive();
    try {
      const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
      await archive.grow(mail, seal);
      expect(await verified(archive.dir)).toMatchObject({ messages: 12, found: 0 });
      const { size } = statSync(segmentOf(archive, seal));
      for (let bad = 0; bad * SECTOR < size; bad += 1) {
        for (const full of [true, false]) {
          const found = await verified(archive.dir, { files: withoutSector(bad, 'whole'), full });
          const reported = found.findings.flatMap((finding) =>
            finding.what === 'log' && finding.reason === 'unreadable'
              ? [[finding.offset, finding.end]]
              : [],
          );
          const first = found.findings.some(
            (finding) => finding.what === 'log' && finding.reason === 'segment-header',
          );
          const end = Math.min((bad + 1) * SECTOR, size);
          expect({ bad, full, reported, first }).toEqual({
            bad,
            full,
            reported: bad === 0 ? [] : [[bad * SECTOR, end]],
            first: bad === 0,
          });
          expect(found.tail).toBeNull();
        }
      }
    } finally {
      archive.remove();
    }
  },
);

test.each([true, false])(
  'what a bad sector took is brought back from a copy (sealed: %s)',
  async (seal) => {
    const archive = new GrownArchive();
    const copy = `${archive.dir}-copy`;
    try {
      const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
      await archive.grow(mail, seal);
      cpSync(archive.dir, copy, { recursive: true });
      const segment = segmentOf(archive, seal);
      for (let bad = 0; bad * SECTOR < statSync(segment).size; bad += 1) {
        const files = withoutSector(bad, 'whole', (path) => path === segment);
        const options = { dir: archive.dir, files, checker: checkerInProcess(files) };
        const { signal } = new AbortController();
        const { mended } = await repairArchive({
          ...options,
          copies: [copy],
          now: () => START,
          signal,
        });
        // Where the last commit is lost, nothing shows that the next segment follows: it is rewritten as well.
        expect(mended.map((it) => it.segment)).toContain(1);
        const after = await verifyArchive({ ...options, full: true, signal });
        expect(after).toMatchObject({ messages: 12, rebuilt: 12 });
        expect(after.findings.filter(({ what }) => what !== 'catalog')).toEqual([]);
        rmSync(archive.dir, { recursive: true });
        cpSync(copy, archive.dir, { recursive: true });
      }
    } finally {
      archive.remove();
      rmSync(copy, { recursive: true, force: true });
    }
  },
);

test('what a bad sector took and no copy has is reported, and nothing is written behind it', async () => {
  const archive = new GrownArchive();
  const whole = `${archive.dir}-whole`;
  try {
    const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
    await archive.grow(mail, false);
    cpSync(archive.dir, whole, { recursive: true });
    const { dir } = archive;
    const segment = segmentOf(archive, false);
    let unwritable = 0;
    for (let bad = 0; bad * SECTOR < statSync(segment).size; bad += 1) {
      const files = withoutSector(bad, 'whole', (path) => path === segment);
      const { signal } = new AbortController();
      const damaged = { code: 'log-damaged', facts: { file: segment, offset: expect.any(Number) } };
      await expect(
        openLogWriter({ dir, files, now: () => START }),
        `sector ${bad}`,
      ).rejects.toMatchObject(damaged);
      const checker = checkerInProcess(files);
      const options = { dir, files, checker, copies: [], now: () => START, signal };
      const repaired = await repairArchive(options);
      expect(repaired.before.found).toBeGreaterThan(0);
      if (repaired.unwritable !== null) unwritable += 1;
      rmSync(dir, { recursive: true });
      cpSync(whole, dir, { recursive: true });
    }
    expect(unwritable).toBeGreaterThan(0);
  } finally {
    archive.remove();
    rmSync(whole, { recursive: true, force: true });
  }
});

test.each([true, false])(
  'nothing is copied over a bad sector: it is reported as damage (sealed: %s)',
  async (seal) => {
    const archive = new GrownArchive();
    const to = `${archive.dir}-copy`;
    try {
      const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
      await archive.grow(mail, seal);
      const segment = segmentOf(archive, seal);
      for (let bad = 0; bad * SECTOR < statSync(segment).size; bad += 1) {
        mkdirSync(to);
        const files = withoutSector(bad, 'whole', (path) => path === segment);
        const { signal } = new AbortController();
        const copying = copyLog({
          ...{ from: archive.dir, to, files, signal, seen: 0 },
          forget: async () => {},
        });
        await expect(copying, `sector ${bad}`).rejects.toMatchObject({ code: 'log-damaged' });
        rmSync(to, { recursive: true });
      }
    } finally {
      archive.remove();
      rmSync(to, { recursive: true, force: true });
    }
  },
);
