import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mailkeep } from '../../cli/child.ts';
import { absent } from '../../peers/programs.ts';
import { everything } from '../../retention/everything.ts';
import { laterLetter, SomeArchive } from './some-archive.ts';
import { commitsIn, sound, soundOrBehind } from './sound-archive.ts';
import { powerCuts, type Trial, WATCHDOG } from './trial.ts';

describe.skipIf(absent('strace'))('a copy that loses its power', () => {
  let archive: SomeArchive;
  beforeAll(async () => {
    archive = await SomeArchive.create({ later: 6 });
  });
  afterAll(() => archive.remove());

  const copyIn = (work: string): string => path.join(work, 'new', 'copy');
  const args = (work: string): string[] => [
    ...['copy', '--rebuild', '--to', copyIn(work), '--data', archive.dir],
  ];

  /** Brings a copy level; of the archive as it is when the trial was prepared. */
  const copying = (
    name: string,
    prepare: Trial['prepare'],
    afterEnd: (to: string) => void,
  ): Trial => {
    let commits: readonly string[] = [];
    return {
      name,
      async prepare(work) {
        await prepare(work);
        commits = await commitsIn(archive.dir);
      },
      args,
      async afterCut(work, left) {
        const to = copyIn(work);
        // Before that is there it is no archive yet.
        if (!left.isOver && !existsSync(path.join(to, 'FORMAT'))) return;
        await (left.isOver ? sound(to) : soundOrBehind(to));
        const there = await commitsIn(to);
        expect(there).toEqual(commits.slice(0, left.isOver ? commits.length : there.length));
      },
      async afterEnd(work) {
        await sound(copyIn(work));
        expect(await commitsIn(copyIn(work))).toEqual(commits);
        afterEnd(copyIn(work));
      },
    };
  };

  test(
    'a new one: what is there is complete, and it resumes',
    () =>
      powerCuts(
        copying(
          'copy',
          () => {},
          () => {},
        ),
      ),
    WATCHDOG,
  );

  test(
    'one that has what is forgotten now: it goes from there as well',
    async () => {
      const { source, word } = laterLetter(0);
      const trial = copying(
        'copy of an archive that forgot',
        async (work) => {
          expect((await mailkeep(args(work))).code).toBe(0);
          expect(everything(copyIn(work))).toContain(word);
          const forget = ['forget', hash('sha256', source), '--yes', '--data', archive.dir];
          expect((await mailkeep(forget)).code).toBe(0);
        },
        (to) => expect(everything(to)).not.toContain(word),
      );
      await powerCuts(trial);
    },
    WATCHDOG,
  );
});
