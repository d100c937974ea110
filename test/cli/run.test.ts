import { expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { OutputClosed, streamOutput } from '../../src/cli/output.ts';
import { combineExitCodes, EXIT } from '../../src/core/errors.ts';
import { jsonLine } from '../../src/core/terminal-safe.ts';
import { closedAfter, ran } from './surface.ts';

test('--help names every command, and how it ends', async () => {
  const { code, stdout } = await ran(['--help']);
  expect(code).toBe(0);
  for (const { name, summary } of COMMANDS) {
    expect(stdout).toContain(name);
    expect(stdout).toContain(summary);
  }
  for (const exit of Object.values(EXIT)) expect(stdout).toMatch(new RegExp(`^ +${exit} `, 'm'));
});

test('a wrong line is exit 2, with a sentence on stderr and nothing on stdout', async () => {
  for (const args of [['nonsense'], ['--nonsense'], ['list', '--nonsense'], ['show']]) {
    const { code, stdout, stderr } = await ran(args);
    expect([args, code, stdout]).toEqual([args, 2, '']);
    expect(stderr).toMatch(/^mailkeep: \S.*\n"mailkeep.* --help" shows the usage\.\n$/);
  }
});

test('a line without a command asks for one, and shows the help', async () => {
  for (const [args, usage] of [
    [[], 'Usage: mailkeep <command> [options]'],
    [['--quiet'], 'Usage: mailkeep <command> [options]'],
    [['webhooks'], 'Usage: mailkeep webhooks <list|create|'],
  ] as const) {
    const { code, stdout, stderr } = await ran(args);
    expect([args, code, stdout]).toEqual([args, 2, '']);
    expect(stderr.startsWith(`mailkeep: No command given.\n${usage}`), stderr).toBe(true);
  }
  expect(await ran(['help', 'help'])).toMatchObject({ code: 0, stderr: '' });
});

test.each([
  [['serch', 'anna'], "mailkeep: Unknown command 'serch'. Did you mean search?\n"],
  [['sync', '--ful'], "mailkeep: Unknown option '--ful'. Did you mean --full?\n"],
  [['help', 'serch'], "Unknown command 'serch'. Did you mean search?"],
  [['help', 'nosuch'], "Unknown command 'nosuch'."],
  [['daemon', 'insall'], "Unknown command 'insall'. Did you mean install?"],
  [['webhooks', 'lst'], "Unknown command 'lst'. Did you mean list?"],
  [['webhooks', 'list', '--mailbx', 'x'], "Unknown option '--mailbx'. Did you mean --mailbox?"],
  [['search', 'x', '--limt', '3'], "Unknown option '--limt'. Did you mean --limit?"],
  [['list', '--jsn'], "Unknown option '--jsn'. Did you mean --json?"],
  [['export', '--to', 'x', '--format', 'emll'], 'Did you mean eml?'],
  [['search', 'x', '--sort', 'newst'], 'Did you mean newest?'],
  [['completion', 'bsh'], 'Did you mean bash?'],
])('a typing error is reported with what was probably meant: %j', async (args, words) => {
  const { code, stdout, stderr } = await ran(args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(words);
});

test('a zip is not written to what is named like a folder', async () => {
  const { code, stderr } = await ran(['export', '--to', 'x/', '--format', 'zip']);
  expect([code, stderr]).toEqual([
    2,
    'mailkeep: --to: expected the name of a file for a zip, found "x/".\n',
  ]);
});

test('with --json, before or after, the error is one object on stderr', async () => {
  for (const args of [
    ['--json', 'list', '--nonsense'],
    ['list', '--nonsense', '--json'],
  ]) {
    const { code, stdout, stderr } = await ran(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: 'usage-invalid',
        message: expect.stringContaining('--nonsense'),
        hint: '"mailkeep list --help" shows the usage.',
      },
    });
  }
});

test('where several exit codes apply, 3 takes precedence over 6, 4 and 1', () => {
  expect(combineExitCodes([])).toBe(0);
  expect(combineExitCodes([1, 0])).toBe(1);
  expect(combineExitCodes([1, 4])).toBe(4);
  expect(combineExitCodes([4, 1, 6])).toBe(6);
  expect(combineExitCodes([6, 3, 4, 1])).toBe(3);
});

test('a line of JSON holds nothing that a terminal obeys, and says the same', () => {
  const hostile = {
    name: '\u001b]0;t\u0007\u009b2J\u007f\u202egnp.exe\u2066\u200f\u061c\u2028"\\é\u{1f600}👩‍👧',
  };
  const line = jsonLine(hostile);
  expect(line).toMatch(/^[^\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$/u);
  expect(line).toContain('é\u{1f600}👩‍👧');
  expect(JSON.parse(line)).toEqual(hostile);
});

test('a reader that goes away ends the output quietly', async () => {
  const output = streamOutput(closedAfter(10), { json: false, env: {} });
  const writeForEver = async (): Promise<void> => {
    for (;;) {
      await output.text('12345678');
      await new Promise(setImmediate);
    }
  };
  await expect(writeForEver()).rejects.toBeInstanceOf(OutputClosed);
});

test('a terminal that does not know its size is taken to have room', () => {
  for (const columns of [0, undefined]) {
    const stream = Object.assign(closedAfter(10), {
      isTTY: true,
      ...(columns === undefined ? {} : { columns }),
    });
    expect(streamOutput(stream, { json: false, env: {} }).columns).toBe(100);
  }
});
