import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { manualPage, readHelp, roffText } from '../../src/cli/commands/manual.ts';
import { COMMANDS } from '../../src/cli/commands.ts';

let page: string;
beforeAll(async () => {
  page = await manualPage(COMMANDS);
});

describe('the man page', () => {
  test('has every command with every option, and every command below it', async () => {
    for (const { name, load } of COMMANDS) {
      const command = new Command(name);
      (await load()).register(command, () => {});
      expect(page).toContain(`\n.SS mailkeep ${name}`);
      const part = page.split(`\n.SS mailkeep ${name}`)[1]?.split('\n.S')[0] ?? '';
      for (const below of command.commands) {
        expect(part).toContain(`\n.B mailkeep ${name} ${below.name()}`);
      }
      for (const { long, hidden } of [command, ...command.commands].flatMap((it) => it.options)) {
        if (!hidden)
          expect([name, part]).toEqual([name, expect.stringContaining(roffText(long ?? ''))]);
      }
    }
    expect(page).toContain('\n.SH EXIT STATUS\n');
  });

  test('is what the build ships, and package.json names', () => {
    // npm links no man page that is named as a text.
    expect(packageJson.man).toEqual(['./dist/mailkeep.1']);
    const built = new URL(`../../${packageJson.man[0]}`, import.meta.url);
    expect(readFileSync(fileURLToPath(built), 'utf8')).toBe(page);
    expect(page).toContain(`.TH MAILKEEP 1 "" "mailkeep ${packageJson.version}"`);
  });

  test('is ASCII, and has no request but those that are meant', () => {
    expect(page).toMatch(/^[\n\x20-\x7e]*$/);
    const requests = [...page.matchAll(/^[.']\w*/gm)].map(([request]) => request);
    const known = [
      '.TH',
      '.nh',
      '.ad',
      '.SH',
      '.SS',
      '.PP',
      '.TP',
      '.B',
      '.br',
      '.RS',
      '.RE',
      '.nf',
      '.fi',
    ];
    expect([...new Set(requests)].filter((request) => !known.includes(request))).toEqual([]);
  });

  const groff = spawnSync('groff', ['--version']).error === undefined;
  test.runIf(groff)('is printed by groff without a warning', () => {
    const { stdout, stderr } = spawnSync('groff', ['-man', '-Tutf8', '-P-cbou', '-ww'], {
      input: page,
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    expect(stdout).toContain('mailkeep search [options] [query...]');
  });
});

test('a help is taken apart', () => {
  const help = `Usage: mailkeep x [options]

does x

Options:
  --long-option <name>  what is said
                        in two lines
  -h, --help            print help

Words that
go on.
  kept   as is

EXAMPLES
  mailkeep x`;
  expect(readHelp(help)).toEqual({
    usage: 'mailkeep x [options]',
    description: 'does x',
    lists: new Map([
      [
        'Options',
        [
          { term: '--long-option <name>', description: 'what is said in two lines' },
          { term: '-h, --help', description: 'print help' },
        ],
      ],
    ]),
    blocks: [
      { kind: 'paragraph', text: 'Words that go on.' },
      { kind: 'lines', lines: ['kept   as is'] },
      { kind: 'heading', text: 'EXAMPLES' },
      { kind: 'lines', lines: ['mailkeep x'] },
    ],
  });
});

test.each([
  ['--raw', '\\-\\-raw'],
  ['.hidden', '\\&.hidden'],
  ['\'quoted\' "too"', '\\(aqquoted\\(aq \\(dqtoo\\(dq'],
  ['C:\\mail', 'C:\\email'],
  ['~/…', '\\(ti/\\[u2026]'],
])('%s in roff', (text, escaped) => {
  expect(roffText(text)).toBe(escaped);
});
