import { beforeAll, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { commandExitCodes } from '../../src/cli/help-text.ts';
import { parseCommandLine } from '../../src/cli/program.ts';
import { EXIT } from '../../src/core/errors.ts';
import { allCommands } from '../surface/command-walk.ts';

/** The help of every command and of every command below one, by its words. */
const pages = new Map<string, string>();

beforeAll(async () => {
  for (const { words } of await allCommands()) {
    const help = await parseCommandLine([...words.split(' '), '--help'], COMMANDS);
    if (help.kind !== 'print') throw new Error(`${words} --help prints nothing`);
    pages.set(words, help.text);
  }
});

function section(text: string, heading: string): string[] {
  const parts = text.split(`\n${heading}\n`);
  expect(parts).toHaveLength(2);
  const [lines = ''] = parts[1]?.split(/^\S/m) ?? [];
  return lines.split('\n').filter((line) => line !== '');
}

/** The command lines of this program among the words of an example, as a shell would pass them. */
function commandLines(example: string): string[][] {
  const lines: string[][] = [];
  for (const part of example.split(/ \|\|? | && |; /)) {
    const [words = ''] = part.trim().split(/ {2,}| [<>]/);
    const [program, ...args] = [...words.matchAll(/'([^']*)'|"([^"]*)"|\S+/g)].map(
      ([whole, single, double]) => single ?? double ?? whole,
    );
    if (program === 'mailkeep') lines.push(args);
  }
  return lines;
}

test('every help shows examples that call its command, and the program takes them', async () => {
  expect(pages.size).toBeGreaterThan(70);
  let tried = 0;
  expect([...pages.keys()]).toEqual(expect.arrayContaining(COMMANDS.map(({ name }) => name)));
  for (const [words, text] of pages) {
    expect(text).toContain(`Usage: mailkeep ${words}`);
    const examples = section(text, 'EXAMPLES')
      .join('\n')
      .replace(/(?:\\|(?<=\|))\n\s+/g, ' ')
      .split('\n');
    expect([words, examples.some((line) => line.includes(`mailkeep ${words}`))]).toEqual([
      words,
      true,
    ]);
    for (const args of examples.flatMap(commandLines)) {
      await expect(parseCommandLine(args, COMMANDS), args.join(' ')).resolves.toBeDefined();
      tried += 1;
    }
  }
  expect(tried).toBeGreaterThan(100);
});

test('every help lists the exit codes of its command', () => {
  for (const [words, text] of pages) {
    const [name = ''] = words.split(' ');
    const codes = commandExitCodes(name);
    // Not the table for commands that are not listed.
    expect(codes).not.toBe(commandExitCodes('nosuch'));
    const listed = section(text, 'EXIT STATUS').flatMap(
      (line) => /^ {2}(\d+) /.exec(line)?.[1] ?? [],
    );
    const own = Object.values(EXIT).filter((code) => codes[code] !== undefined);
    expect([words, listed]).toEqual([words, own.map(String)]);
  }
});
