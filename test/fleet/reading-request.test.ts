import { Command } from 'commander';
import { expect, test } from 'vitest';
import { ANSWERED } from '../../src/cli/fleet-commands.ts';
import { lineOf, type ReadingRequest } from '../../src/fleet/reading/request.ts';

const request = (more: Partial<ReadingRequest>): ReadingRequest => ({
  ...{ session: null, archive: 1, command: 'search', options: [], words: [], json: false },
  ...{ quiet: false, columns: null, colours: false, timeZone: 'UTC' },
  ...more,
});

function isAccepted(command: string, name: string, value: string | null): boolean {
  try {
    lineOf(request({ command, options: [[name, value]] }));
    return true;
  } catch {
    return false;
  }
}

test('an option that takes a value never takes what follows it, and a flag takes none', async () => {
  const taken: string[] = [];
  for (const { name, load } of ANSWERED) {
    const command = new Command(name);
    (await load()).register(command, () => {});
    for (const { long, required, optional } of command.options) {
      if (long === undefined || long === null) continue;
      expect([name, long, optional]).toEqual([name, long, false]);
      const [alone, given] = [isAccepted(name, long, null), isAccepted(name, long, 'x')];
      if (alone || given) taken.push(`${name} ${long}`);
      expect([name, long, alone && required, given && !required]).toEqual([
        ...[name, long, false, false],
      ]);
    }
  }
  expect(taken).toContain('search --limit');
  expect(taken).toContain('list --deleted');
  expect(taken.filter((one) => /--(save|replace|forget|to|yes|account)$/.test(one))).toEqual([]);
});

test('what this program adds to a line stands before all that was asked', () => {
  expect(lineOf(request({ command: 'forget', words: ['--yes'], json: true }))).toEqual([
    ...['forget', '--dry-run', '--json', '--', '--yes'],
  ]);
  const shown = request({ command: 'show', options: [['--raw', null]], words: ['id'] });
  expect(lineOf(shown)).toEqual(['show', '--no-pager', '--raw', '--', 'id']);
  // These would have taken the next word of the line for their value.
  expect(isAccepted('search', '--after', null)).toBe(false);
  expect(isAccepted('forget', '--folder', null)).toBe(false);
});
