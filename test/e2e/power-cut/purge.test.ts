import { hash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ConfigInput } from '../../../src/core/config-schema.ts';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, workplace } from '../../cli/child.ts';
import { absent } from '../../peers/programs.ts';
import { everything, inFilesAndLog } from '../../retention/everything.ts';
import { writePrunable } from '../../retention/prunable-archive.ts';
import { other, secret, WORDS, wordsIn } from '../../retention/secret-mail.ts';
import { keepsCommits, sound, soundWithCommits } from './sound-archive.ts';
import { powerCuts, WATCHDOG } from './trial.ts';

describe.skipIf(absent('strace'))('a purge that loses its power', () => {
  test(
    'prune: what was to go is gone from the log afterwards, and nothing else',
    () =>
      powerCuts({
        name: 'prune --apply',
        async prepare(work) {
          const data = path.join(work, 'data');
          mkdirSync(data, { mode: 0o700 });
          await writePrunable(data, { sealed: true });
          expect(bodies(data)).toEqual([...GOING, ...STAYING]);
          const config: ConfigInput = {
            accounts: [{ name: 'main', baseUrl: 'https://mail.example.org', token: 'secret' }],
            dataDir: data,
            retention: { endedAfterDays: 30 },
          };
          writeFileSync(path.join(work, 'config.json'), JSON.stringify(config), { mode: 0o600 });
        },
        args: (work) => ['prune', '--apply', '--config', path.join(work, 'config.json')],
        async afterCut(work, left) {
          const data = path.join(work, 'data');
          await soundWithCommits(data, left);
          const seen = bodies(data);
          expect(seen).toEqual(expect.arrayContaining(STAYING));
          if (left.isOver) expect(seen).toEqual(STAYING);
        },
        async afterEnd(work, left) {
          const data = path.join(work, 'data');
          await sound(data);
          await keepsCommits(data, left);
          expect(bodies(data)).toEqual(STAYING);
        },
      }),
    WATCHDOG,
  );

  test(
    'forget: no word of it is in any file afterwards',
    () =>
      powerCuts({
        name: 'forget',
        async prepare(work) {
          const mail = path.join(work, 'mail');
          mkdirSync(mail);
          writeFileSync(path.join(mail, '1.eml'), secret);
          writeFileSync(path.join(mail, '2.eml'), other);
          const sandbox = await startSandbox({ seed: 5, from: [mail] });
          const place = workplace(sandbox, (config) => ({
            ...config,
            dataDir: path.join(work, 'data'),
          }));
          try {
            const synced = await mailkeep(['sync', '--config', place.config, '--quiet']);
            expect(`${synced.code} ${synced.stderr}`).toBe('0 ');
          } finally {
            await sandbox.close();
            rmSync(place.folder, { recursive: true, force: true });
            rmSync(mail, { recursive: true, force: true });
          }
          const data = path.join(work, 'data');
          // What a repair put aside.
          const aside = path.join(data, 'catalog.sqlite.before-repair-1');
          writeFileSync(aside, secret, { mode: 0o600 });
          expect(wordsIn(data)).toEqual(Object.keys(WORDS));
        },
        args: (work) => ['forget', hash('sha256', secret), '--yes', '--data', `${work}/data`],
        async afterCut(work, left) {
          const data = path.join(work, 'data');
          await soundWithCommits(data, left);
          if (left.isOver) expect(wordsIn(data)).toEqual([]);
        },
        async afterEnd(work, left) {
          const data = path.join(work, 'data');
          await sound(data);
          await keepsCommits(data, left);
          expect(wordsIn(data)).toEqual([]);
          expect(everything(data)).toContain('zebrasharedword');
        },
      }),
    WATCHDOG,
  );
});

const GOING = ['drafted', 'legal', 'old'];
const STAYING = ['kept', 'late', 'recent'];

/** Letters whose bodies are in the log, packed or not. */
function bodies(data: string): string[] {
  const all = inFilesAndLog(data);
  return [...GOING, ...STAYING].filter((word) => all.includes(`${word}body`));
}
