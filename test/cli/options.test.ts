import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { COMMANDS } from '../../src/cli/commands.ts';
import { commandExitCodes } from '../../src/cli/help-text.ts';
import { usesColour } from '../../src/cli/output.ts';
import { EXIT } from '../../src/core/errors.ts';
import { sourceFiles } from '../architecture/source-tree.ts';
import { mailkeep, screen } from './child.ts';
import { ran } from './surface.ts';

let folder: string;
let data: string;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-options-'));
  data = path.join(folder, 'archive');
  for (const [i, subject] of ['News of the ferry', 'Vacation by ferry', 'Ferry'].entries()) {
    const date = new Date(Date.UTC(2026, 1, i + 1)).toUTCString();
    const head = `Message-ID: <${i}@example.org>\r\nDate: ${date}\r\nSubject: ${subject}\r\n`;
    writeFileSync(path.join(folder, `${i}.eml`), `${head}From: anna@example.org\r\n\r\nferry\r\n`);
  }
  const files = [0, 1, 2].map((i) => path.join(folder, `${i}.eml`));
  const { code, stderr } = await mailkeep(['import', ...files, '--data', data]);
  expect(code, stderr).toBe(0);
});

const count = async (...words: string[]) =>
  (await ran(['search', '--count', ...words, '--data', data])).stdout;

describe('letters', () => {
  test('-n is --limit, -V is --version', async () => {
    const lines = async (...args: string[]) =>
      (await ran([...args, '--data', data])).stdout.split('\n').length - 1;
    expect(await lines('list', '-n', '2')).toBe(2);
    expect(await lines('list', '-n1')).toBe(1);
    expect(await lines('search', '--format', 'ids', 'ferry', '-n', '2')).toBe(2);
    expect(await lines('search', '--format', 'ids', '-n1', 'ferry')).toBe(1);
    for (const args of [['--version'], ['-V'], ['list', '-V']])
      expect(await ran(args)).toEqual({ code: 0, stdout: `${packageJson.version}\n`, stderr: '' });
  });

  test('a word that a search excludes is no cluster of letters', async () => {
    expect(await count('ferry')).toBe('3\n');
    expect(await count('ferry', '-news')).toBe('2\n');
    expect(await count('-vacation', 'ferry')).toBe('2\n');
    expect(await count('ferry', '-vacation', '-news', '-n', '5')).toBe('1\n');
    expect(await count('-subject:news', 'ferry', '-v')).toBe('2\n');
    expect(await count('-Vacation')).toBe('2\n');
    expect(await count('-holiday')).toBe('3\n');
    const before = await ran(['-v', 'search', '--count', '--data', data, '-news']);
    expect(before.stdout).toBe('2\n');
    const last = await ran(['search', '--count', '--data', data, 'ferry', '--', '-news', '-n']);
    expect(last.stdout).toBe('2\n');
  });

  test('-v prints what is in use, the time and stacks, and nothing of it with --json or --quiet', async () => {
    const { code, stderr } = await ran(['list', '-v', '--data', data]);
    expect(code).toBe(0);
    expect(stderr).toBe(`archive: ${data}\ntime: 0 ms\n`);
    for (const silent of ['--json', '--quiet'])
      expect((await ran(['list', '--verbose', silent, '--data', data])).stderr).toBe('');
    const failing = ['list', '--folder', 'Nope', '--data', data];
    expect((await ran(failing)).stderr).not.toContain('\n    at ');
    expect((await ran([...failing, '-v'])).stderr).toContain('\n    at ');
    const json = await ran([...failing, '-v', '--json']);
    expect(JSON.parse(json.stderr)).toHaveProperty('error.code', 'usage-unknown-name');
    const config = path.join(folder, 'config.json');
    writeFileSync(config, '{"acounts": []}', { mode: 0o600 });
    const sync = await ran(['sync', '-v', '--config', config]);
    expect(sync.stderr).toContain(`configuration: ${config}\n`);
  });
});

describe('MAILKEEP_DATA', () => {
  const archive = (args: readonly string[], env: Readonly<Record<string, string>>) =>
    ran(['list', '-v', ...args], { cwd: folder, env });

  test('comes after --data and before the configuration', async () => {
    const config = path.join(folder, 'other.json');
    writeFileSync(config, '{"dataDir": "./elsewhere"}', { mode: 0o600 });
    const env = { MAILKEEP_DATA: './archive', MAILKEEP_CONFIG: config };
    expect(await archive([], env)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`archive: ${data}\n`),
    });
    expect((await archive(['--config', config], env)).stderr).toContain(`archive: ${data}\n`);
    const given = await archive(['--data', 'third'], env);
    expect(given).toMatchObject({ code: 2, stdout: '' });
    expect(given.stderr).toContain(path.join(folder, 'third'));
    for (const [name, option] of [
      ['MAILKEEP_DATA', '--data'],
      ['MAILKEEP_CONFIG', '--config'],
    ] as const) {
      const empty = await archive([], { ...env, [name]: '' });
      expect(empty).toMatchObject({ code: 2, stdout: '' });
      expect(empty.stderr).toContain(`${name} is set, but empty.`);
      const file = option === '--data' ? data : config;
      expect(await archive([option, file], { ...env, [name]: '' })).toMatchObject({ code: 0 });
    }
  });

  test('holds for commands that write as well', async () => {
    const env = { MAILKEEP_DATA: path.join(folder, 'second') };
    const file = path.join(folder, '0.eml');
    const { code, stderr } = await mailkeep(['import', file], { cwd: folder, env });
    expect(code, stderr).toBe(0);
    expect((await archive([], env)).stdout).toContain('News of the ferry');
  });
});

describe('colours', () => {
  const ESC = '\u001b[';
  const list = async (
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    isTerminal: boolean,
  ) => {
    const { stream: stdout, text } = screen(isTerminal ? 100 : undefined);
    expect((await ran(['list', ...args, '--data', data], { stdout, env })).code).toBe(0);
    return text().includes(ESC);
  };

  test.each([
    [[], {}, true, true],
    [[], {}, false, false],
    [['--no-color'], {}, true, false],
    [['--no-color'], { FORCE_COLOR: '1' }, true, false],
    [[], { NO_COLOR: '1' }, true, false],
    [[], { NO_COLOR: '' }, true, true],
    [[], { NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
    [[], { FORCE_COLOR: '1' }, false, true],
    [[], { FORCE_COLOR: '0' }, true, false],
    [[], { FORCE_COLOR: '' }, false, false],
    [[], { TERM: 'dumb' }, true, false],
    [[], { TERM: 'dumb', FORCE_COLOR: '1' }, true, true],
    [['--json'], { FORCE_COLOR: '1' }, true, false],
    [['--format', 'csv'], { FORCE_COLOR: '1' }, true, false],
  ])('%j with %j on a terminal: %s', async (args, env, terminal, coloured) => {
    expect(await list(args, env, terminal)).toBe(coloured);
  });

  test('standard error follows the same rule', () => {
    expect(usesColour(true, { env: {} })).toBe(true);
    expect(usesColour(true, { env: {}, noColour: true })).toBe(false);
    expect(usesColour(false, { env: { FORCE_COLOR: 'true' } })).toBe(true);
    expect(usesColour(true, { env: { FORCE_COLOR: 'false' } })).toBe(false);
  });
});

describe('help', () => {
  test('lists every variable of the environment that the program reads', async () => {
    const { stdout } = await ran(['--help']);
    const section = /\nENVIRONMENT\n((?: .*\n)+)/.exec(stdout)?.[1] ?? '';
    const read = sourceFiles(['src']).flatMap(({ text }) =>
      [...text.matchAll(/\benv\.(MAILKEEP_[A-Z_]+)|\{ (MAILKEEP_[A-Z_]+): \w+ \}: /g)].flatMap(
        ([, dotted, destructured]) => dotted ?? destructured ?? [],
      ),
    );
    expect(new Set(read).size).toBeGreaterThan(3);
    for (const name of [...read, 'NO_COLOR', 'FORCE_COLOR', 'PAGER', 'XDG_CONFIG_HOME'])
      expect(section).toContain(name);
  });

  test('only a sync, what checks for one, and what removes messages may be held', () => {
    const held = COMMANDS.filter(({ name }) => commandExitCodes(name)[EXIT.held] !== undefined);
    expect(held.map(({ name }) => name)).toEqual(['sync', 'doctor', 'import', 'prune', 'forget']);
  });
});

test('the demonstration of npm start does not write into the archive of MAILKEEP_DATA', () => {
  const start = readFileSync(new URL('../../src/bootstrap/start.mjs', import.meta.url), 'utf8');
  expect(start).toContain('delete process.env.MAILKEEP_DATA');
});
