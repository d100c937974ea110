import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../../src/archive/seal.ts';
import { absent } from '../../peers/programs.ts';
import { readTree } from './folder-tree.ts';
import { SomeArchive } from './some-archive.ts';
import { commitsIn, sound } from './sound-archive.ts';
import { powerCuts, WATCHDOG } from './trial.ts';

const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

describe.skipIf(absent('strace'))('a compaction that loses its power', () => {
  let archive: SomeArchive;
  beforeAll(async () => {
    archive = await SomeArchive.create();
    const { dir } = archive;
    const writer = await openLogWriter({ dir, now: Date.now });
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir, before: writer.segment, codec: 'zlib' });
    await dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0 });
    await writer.close();
  });
  afterAll(() => archive.remove());

  test(
    'leaves an archive that reads as before, and zstd only where FORMAT allows it',
    () =>
      powerCuts({
        name: 'compact',
        prepare(work) {
          const data = archive.copyTo(work);
          expect(readFileSync(path.join(data, 'FORMAT'), 'utf8')).toBe('mailkeep archive 1\n');
          expect(holdsZstd(data)).toBe(false);
        },
        args: (work) => ['compact', '--data', path.join(work, 'data')],
        async afterCut(work) {
          const data = path.join(work, 'data');
          if (holdsZstd(data)) {
            expect(readFileSync(path.join(data, 'FORMAT'), 'utf8')).toBe('mailkeep archive 2\n');
          }
          await sound(data);
          expect(await commitsIn(data)).toEqual(archive.commits);
        },
        async afterEnd(work) {
          const data = path.join(work, 'data');
          expect(holdsZstd(data)).toBe(true);
          await sound(data);
          expect(await commitsIn(data)).toEqual(archive.commits);
        },
      }),
    WATCHDOG,
  );
});

/** Whether any file of the log, unfinished ones included, has a zstd frame. The catalog may have some in any format. */
function holdsZstd(dir: string): boolean {
  return [...readTree(path.join(dir, 'log')).files].some(([, bytes]) => bytes.includes(FRAME));
}
