import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkExport } from '../../../src/transfer/check-export.ts';
import { mailkeep } from '../../cli/child.ts';
import { absent } from '../../peers/programs.ts';
import { readTree } from './folder-tree.ts';
import { SomeArchive } from './some-archive.ts';
import type { Left } from './trial.ts';
import { powerCuts, type Trial, WATCHDOG } from './trial.ts';

const FORMATS = ['zip', 'eml', 'maildir', 'mbox'] as const;
const UNFINISHED = /\.tmp$|unfinished/;

describe.skipIf(absent('strace'))('an export that loses its power', () => {
  let archive: SomeArchive;
  beforeAll(async () => {
    archive = await SomeArchive.create({ messages: 16, later: 4 });
  });
  afterAll(() => archive.remove());

  const exporting = (format: (typeof FORMATS)[number], earlier: boolean): Trial => {
    const to = (work: string) => path.join(work, 'new', format === 'zip' ? 'mail.zip' : 'out');
    const args = (work: string, dir: string): string[] => [
      ...['export', '--format', format, '--to', to(work), '--data', dir, '--sidecar'],
      ...(earlier ? ['--incremental'] : []),
    ];
    return {
      name: `export ${format}${earlier ? ' --incremental' : ''}`,
      async prepare(work) {
        if (!earlier) return;
        const { code, stderr } = await mailkeep(args(work, archive.earlier));
        expect(`${code} ${stderr}`).toMatch(/^0 /);
      },
      args: (work) => args(work, archive.dir),
      async afterCut(work, left) {
        wholeFiles(left);
        if (left.isOver || (format === 'zip' && existsSync(to(work)))) await isSound(to(work));
      },
      async afterEnd(work, { atEnd }) {
        await isSound(to(work));
        // The same files; descriptions of messages may differ in their order and in the time of writing.
        const { files } = readTree(work);
        expect([...files.keys()]).toEqual([...atEnd.files.keys()]);
        const messages = [...atEnd.files].filter(([name]) => !/\.(?:json|zip)$/.test(name));
        const other = messages.filter(([name, bytes]) => files.get(name)?.equals(bytes) !== true);
        expect(other.map(([name]) => name)).toEqual([]);
      },
    };
  };

  describe.each(FORMATS)('%s', (format) => {
    test('leaves whole files only', () => powerCuts(exporting(format, false)), WATCHDOG);
    test('so does one that adds', () => powerCuts(exporting(format, true)), WATCHDOG);
  });
});

/** Whatever has its own name is as it was before, or as the whole run leaves it. */
function wholeFiles({ tree, atStart, atEnd }: Left): void {
  for (const [name, bytes] of tree.files) {
    if (UNFINISHED.test(name)) continue;
    const whole = [atStart, atEnd].some(({ files }) => files.get(name)?.equals(bytes) === true);
    expect([name, whole]).toEqual([name, true]);
  }
}

async function isSound(at: string): Promise<void> {
  const { signal } = new AbortController();
  expect(await checkExport({ at, signal })).toMatchObject({ sound: true, found: 0 });
}
