import { statSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { catalogFile } from '../../../src/catalog/database.ts';
import { absent } from '../../peers/programs.ts';
import { killedWriter, SomeArchive } from './some-archive.ts';
import { commitsIn, sound, soundOrWithout } from './sound-archive.ts';
import { powerCuts, WATCHDOG } from './trial.ts';

describe.skipIf(absent('strace'))('a rebuild that loses its power', () => {
  let archive: SomeArchive;
  beforeAll(async () => {
    archive = await SomeArchive.create();
  });
  afterAll(() => archive.remove());

  const rebuilding = (
    name: string,
    prepare: (data: string) => void,
    looksRight: (data: string) => Promise<unknown>,
  ) =>
    powerCuts({
      name,
      prepare: (work) => prepare(archive.copyTo(work)),
      args: (work) => ['rebuild', '--data', `${work}/data`],
      async afterCut(work) {
        await looksRight(`${work}/data`);
        expect(await commitsIn(`${work}/data`)).toEqual(archive.commits);
      },
      afterEnd: (work) => sound(`${work}/data`),
    });

  test(
    'leaves the old catalog or the new one, whole',
    () => rebuilding('rebuild', () => {}, sound),
    WATCHDOG,
  );

  test(
    'leaves a catalog or none where the old one has a write-ahead log',
    () =>
      rebuilding(
        'rebuild after a kill',
        (data) => {
          killedWriter(data);
          expect(statSync(`${catalogFile(data)}-wal`).size).toBeGreaterThan(0);
        },
        soundOrWithout,
      ),
    WATCHDOG,
  );
});
