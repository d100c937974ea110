import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../../src/archive/seal.ts';
import { absent } from '../../peers/programs.ts';
import { readTree } from './folder-tree.ts';
import { SomeArchive } from './some-archive.ts';
import { commitsIn, sound } from './sound-archive.ts';
import { powerCuts, WATCHDOG } from './trial.ts';

const SEALED = path.join('log', '0000000001.2.seg');

describe.skipIf(absent('strace'))('a repair that loses its power', () => {
  let archive: SomeArchive;
  beforeAll(async () => {
    archive = await SomeArchive.create();
    const { dir } = archive;
    const writer = await openLogWriter({ dir, now: Date.now });
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir, before: writer.segment });
    await dropOldGenerations({ dir, now: Date.now(), keepMs: 0 });
    await writer.close();
  });
  afterAll(() => archive.remove());

  test(
    'keeps what was damaged, and mends it from the copy',
    async () => {
      let damaged = Buffer.alloc(0);
      let catalog = Buffer.alloc(0);
      await powerCuts({
        name: 'verify --repair',
        prepare(work) {
          const data = archive.copyTo(work);
          const file = path.join(data, SEALED);
          damaged = readFileSync(file);
          damaged.fill(0x55, damaged.length >> 1, (damaged.length >> 1) + 400);
          writeFileSync(file, damaged);
          catalog = readFileSync(path.join(data, 'catalog.sqlite'));
        },
        args: (work) => ['verify', '--repair', '--from', archive.dir, '--data', `${work}/data`],
        async afterCut(work, { isOver }) {
          const data = path.join(work, 'data');
          const files = [...readTree(data).files];
          // Whatever their names are now.
          for (const [what, kept] of Object.entries({ damaged, catalog })) {
            expect([what, files.some(([, bytes]) => bytes.equals(kept))]).toEqual([what, true]);
          }
          if (isOver) await sound(data);
        },
        async afterEnd(work) {
          const data = path.join(work, 'data');
          await sound(data);
          expect(await commitsIn(data)).toEqual(archive.commits);
          expect(existsSync(path.join(data, `${SEALED}.damaged`))).toBe(true);
        },
      });
      expect(damaged.length).toBeGreaterThan(1000);
    },
    WATCHDOG,
  );
});
