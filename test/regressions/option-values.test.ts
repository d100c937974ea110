import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Command, Option } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { minusWords } from '../../src/cli/option-values.ts';
import { parseCommandLine } from '../../src/cli/program.ts';
import { mailkeep } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';
import { allCommands } from '../surface/command-walk.ts';

const commands = await allCommands();
const withValue = commands.flatMap(({ words, command }) =>
  command.options
    .filter(({ required, optional }) => required || optional)
    .map((option) => ({ words, option, long: option.long ?? option.flags })),
);

/** Values of which every parser of an option accepts one. */
const VALUES = ['a@example.org', '7', '3d', '500k', Buffer.alloc(32).toString('base64')];

function validValue({ argChoices = VALUES, parseArg }: Option): string {
  const valid = argChoices.find((value) => {
    try {
      parseArg?.(value, undefined);
      return true;
    } catch {
      return false;
    }
  });
  if (valid === undefined) throw new Error('no value of this test is valid for the option');
  return valid;
}

/** Returns the problem that the parser states, or an empty text. */
async function problemOf(words: string, ...args: string[]): Promise<string> {
  try {
    await parseCommandLine([...words.split(' '), ...args], COMMANDS);
    return '';
  } catch (error) {
    expect(error).toMatchObject({ family: 'usage' });
    const { problem } = (error as { facts: { problem?: string } }).facts;
    return problem ?? '';
  }
}

test('there are commands and options to check', () => {
  expect(commands.length).toBeGreaterThan(50);
  expect(withValue.length).toBeGreaterThan(120);
});

describe('every option with a value', () => {
  test.each(withValue)('$words $long: repeatable, or refused twice', async ({ words, ...rest }) => {
    const { option, long } = rest;
    const value = validValue(option);
    const twice = await problemOf(words, long, value, `${long}=${value}`);
    const refusal = `${long} takes one value, and it was given more than once.`;
    if (/; repeatable\b/.test(option.description)) expect(twice).not.toBe(refusal);
    else expect(twice).toBe(refusal);
    expect(await problemOf(words, long, value)).not.toBe(refusal);
    if (option.short !== undefined)
      expect(await problemOf(words, option.short, value, long, value)).toBe(twice);
  });

  test.each(withValue)('$words $long: not empty', async ({ words, long }) => {
    for (const empty of [[long, ''], [`${long}=`], [long, ' \t']])
      expect(await problemOf(words, ...empty)).toMatch(
        new RegExp(`${long}.*(is empty|argument '\\s*' is invalid)`),
      );
  });
});

describe('options of every command', () => {
  test.each(['--data', '--config'])('%s: once, wherever it is given', async (option) => {
    const refusal = `${option} takes one value, and it was given more than once.`;
    expect(await problemOf('list', option, 'x', option, 'y')).toBe(refusal);
    expect(await problemOf(`${option} x list`, option, 'y')).toBe(refusal);
    expect(await problemOf('list', option, '')).toContain(`value of ${option} is empty.`);
  });

  test('a switch may be repeated', async () => {
    expect(await problemOf('list', '--json', '--quiet', '--json', '--deleted', '--deleted')).toBe(
      '',
    );
  });
});

describe('every argument', () => {
  const takesArguments = commands.flatMap(({ words, command }) =>
    takesWords(command) ? [{ words, required: requiredOptions(command) }] : [],
  );

  test.each(takesArguments)('of $words: not empty', async ({ words, required }) => {
    expect(await problemOf(words, ...required, '', '')).toMatch(
      /argument <\w+> is empty|'' is invalid|many arg/,
    );
    expect(await problemOf(words, ...required, ' ')).toMatch(
      /argument <\w+> is empty|' ' is invalid/,
    );
  });

  test('words of a query may be empty', async () => {
    expect(await problemOf('search', '', 'ferry')).toBe('');
  });
});

function takesWords({ registeredArguments, commands: below }: Command): boolean {
  return (
    below.length === 0 &&
    registeredArguments.length > 0 &&
    registeredArguments.every(({ parseArg }) => parseArg !== minusWords)
  );
}

function requiredOptions({ options }: Command): string[] {
  return options.flatMap((option) =>
    option.mandatory ? [option.long ?? option.flags, validValue(option)] : [],
  );
}

describe('several mailboxes and folders', () => {
  let folder: string;
  let data: string;

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-option-values-'));
    data = path.join(folder, 'archive');
    // Mailbox m1 has 1 message, m2 has 2, m3 has 4, half of them in Sub.
    for (const [name, messages] of Object.entries({ m1: 1, m2: 2, m3: 4 })) {
      for (let i = 0; i < messages; i += 1) {
        const file = path.join(folder, `${name}-${i}.eml`);
        writeFileSync(
          file,
          `Subject: ${name} ${i}\r\nFrom: a@example.org\r\n\r\ntext ${name} ${i}\r\n`,
        );
      }
      const files = Array.from({ length: messages }, (_, i) =>
        path.join(folder, `${name}-${i}.eml`),
      );
      const { code, stderr } = await mailkeep([
        'import',
        ...files,
        '--mailbox',
        name,
        '--data',
        data,
      ]);
      expect(code, stderr).toBe(0);
    }
  });

  const listed = async (...args: string[]) => {
    const { code, stdout, stderr } = await ran(['list', '--json', ...args, '--data', data]);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    return stdout.split('\n').length - 1;
  };
  const exported = async (...args: string[]) => {
    const to = mkdtempSync(path.join(folder, 'export-'));
    const line = ['export', '--to', to, '--format', 'eml', '--json', ...args, '--data', data];
    const { code, stdout, stderr } = await ran(line);
    expect(code, stderr).toBe(0);
    const manifest = JSON.parse(readFileSync(path.join(to, 'mailkeep-export.json'), 'utf8'));
    return { exported: JSON.parse(stdout).exported, selection: manifest.selection };
  };

  test('list and export take all of them', async () => {
    for (const [names, sum] of [
      [['m1'], 1],
      [['m1', 'm2'], 3],
      [['m3', 'm1'], 5],
      [['M3', 'm3'], 4],
      [['m1', 'm2', 'm3'], 7],
    ] as const) {
      const options = names.flatMap((name) => ['--mailbox', name]);
      expect(await listed(...options)).toBe(sum);
      expect(await listed(...options, '--folder', 'INBOX', '--folder', 'IN*')).toBe(sum);
      const { exported: count, selection } = await exported(...options);
      expect(count).toBe(sum);
      expect(selection.mailbox).toEqual(names.length === 1 ? names[0] : names);
    }
  });

  test('one unknown name among known ones is refused', async () => {
    const unknown = await ran(['list', '--mailbox', 'm1', '--mailbox', 'mm', '--data', data]);
    expect(unknown).toMatchObject({ code: 2, stdout: '' });
    expect(unknown.stderr).toContain('mm');
    const to = path.join(folder, 'never');
    const line = ['export', '--to', to, '--format', 'zip', '--data', data];
    const nowhere = await ran([...line, '--folder', 'INBOX', '--folder', 'Nowhere']);
    expect(nowhere).toMatchObject({ code: 2, stdout: '' });
    expect(nowhere.stderr).toContain('Nowhere');
  });
});
