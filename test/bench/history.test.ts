import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { formatHistory, recall, remember, remembered } from './history.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'mailkeep-history-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function run(n: number, sync: number, rebuild: number, setting = '10,000 messages') {
  const row = (work: string, ratio: number, target: string) => ({
    ...{ work, ratio, target, peers: '', mailkeep: '' },
  });
  return remembered(
    [
      row('First sync', sync, '>= 2 x mbsync'),
      row('Rebuild', rebuild, '<= the indexing'),
      { work: 'Export', peers: '', mailkeep: '', target: 'none' },
    ],
    { at: `2026-01-${String(n).padStart(2, '0')}T00:00:00Z`, commit: `c${n}`, setting },
  );
}

test('remembers runs in a file, and those of the latest setting are shown', () => {
  const file = join(dir, 'new', 'history.jsonl');
  expect(formatHistory(recall(file))).toBe('No run is remembered yet.');
  for (let n = 1; n <= 12; n++) remember(file, run(n, 1.5, 1));
  remember(file, run(13, 9, 9, '50,000 messages'));
  remember(file, run(14, 1.5, 1));
  const shown = formatHistory(recall(file));
  expect(shown).toContain('the last 10 runs: 10,000 messages');
  expect(shown.split('\n')[1]?.split(/ +/)).toEqual([
    'Commit',
    ...['c4', 'c5', 'c6', 'c7', 'c8', 'c9', 'c10', 'c11', 'c12', 'c14'],
  ]);
  expect(shown).not.toContain('Export');
  expect(shown).not.toContain('!');
});

test.each([
  ['better both ways', 2, 0.5, 0],
  ['worse within noise', 1.4, 1.1, 0],
  ['slower where more is better', 1.2, 1, 1],
  ['slower where less is better', 1.5, 1.3, 1],
])('marks what is worse than usual: %s', (_, sync, rebuild, marks) => {
  const runs = [run(1, 1.5, 1), run(2, 9, 9), run(3, 1.5, 1), run(4, sync, rebuild)];
  expect(formatHistory(runs).split('!').length - 1).toBe(marks);
});
