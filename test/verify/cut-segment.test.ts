import { cpSync, rmSync, truncateSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { SEGMENT_HEADER_BYTES, segmentPath } from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openSegment } from '../../src/archive/segment-files.ts';
import { segmentBatches } from '../../src/archive/segment-reader.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

let archive: GrownArchive;
beforeEach(async () => {
  archive = new GrownArchive();
  const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
  await archive.grow(mail.slice(0, 9), false);
  const writer = await openLogWriter({ dir: archive.dir, now: () => START });
  await writer.rollIfLarger(0);
  await writer.close();
  await archive.grow(mail.slice(9), false);
});
afterEach(() => archive.remove());

/** Where the commits of a segment end in its file. */
function commitEnds(segment: number): number[] {
  const opened = openSegment(realFiles, archive.dir, { segment, generation: 1 });
  if (opened === undefined) throw new Error('the segment has no header');
  try {
    return [...segmentBatches(opened, { digest: true }, () => undefined)].map(({ end }) => end);
  } finally {
    opened.file.close();
  }
}

test('a segment that was cut at the end of a commit is found by the one behind it', async () => {
  const ends = commitEnds(1);
  expect(ends).toHaveLength(3);
  expect(await verified(archive.dir)).toMatchObject({ messages: 12, found: 0 });
  for (const end of ends.slice(0, -1).reverse()) {
    truncateSync(segmentPath(archive.dir, { segment: 1, generation: 1 }), end);
    for (const full of [true, false]) {
      const { findings } = await verified(archive.dir, { full });
      expect(findings).toContainEqual(
        expect.objectContaining({ what: 'log', segment: 2, reason: 'chain' }),
      );
    }
  }
});

test('what was lost at the end of the log comes back from a copy', async () => {
  const copy = `${archive.dir}-copy`;
  const damaged = `${archive.dir}-damaged`;
  const pathOf = (segment: number) => segmentPath(damaged, { segment, generation: 1 });
  const [first = 0] = commitEnds(1);
  cpSync(archive.dir, copy, { recursive: true });
  try {
    for (const lose of [
      () => rmSync(pathOf(2)),
      () => truncateSync(pathOf(2), SEGMENT_HEADER_BYTES),
      () => {
        rmSync(pathOf(2));
        truncateSync(pathOf(1), first);
      },
    ]) {
      cpSync(archive.dir, damaged, { recursive: true });
      lose();
      const { mended } = await repairArchive({
        dir: damaged,
        checker: checkerInProcess(realFiles),
        copies: [copy],
        now: () => START,
        signal: new AbortController().signal,
      });
      expect(mended.map(({ segment }) => segment)).toContain(2);
      expect(await verified(damaged)).toMatchObject({ messages: 12, found: 0, catalog: 'equal' });
      rmSync(damaged, { recursive: true });
    }
  } finally {
    rmSync(copy, { recursive: true });
  }
});
