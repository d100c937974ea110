import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { commandName, READING_COMMANDS, readingCommand } from '../../src/cli/command-name.ts';
import { COMMANDS } from '../../src/cli/commands.ts';
import { mailkeep } from '../cli/child.ts';
import { installation } from './installation.ts';

test('the command of a line is its first word that is no option and no value of one', () => {
  const named: [string[], string | undefined][] = [
    [['search', 'sync'], 'search'],
    [['--data', 'search', 'sync'], 'sync'],
    [['--config=search', '--json', 'list'], 'list'],
    [['--quiet', '--data', 'x'], undefined],
    [[], undefined],
  ];
  for (const [args, name] of named) expect([args, commandName(args)]).toEqual([args, name]);
  expect(readingCommand('search')).toBe('search');
  expect(readingCommand('sync')).toBeUndefined();
});

test('the launcher knows the reading commands by the names they have', () => {
  const names = COMMANDS.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([...READING_COMMANDS]));
});

test('reading commands say the same from the script, without its code, and from the modules', async () => {
  const copy = installation();
  const help = (): string => {
    const program = path.join(copy, 'dist', 'mailkeep.cjs');
    const { status, stdout } = spawnSync(process.execPath, [program, 'search', '--help'], {
      env: { HOME: copy },
    });
    expect(status).toBe(0);
    return stdout.toString('utf8');
  };
  const { stdout } = await mailkeep(['search', '--help']);
  expect(help()).toBe(stdout);
  for (const kind of ['.code', '.script']) {
    const files = readdirSync(path.join(copy, 'dist')).filter((name) => name.endsWith(kind));
    expect(files.length).toBeGreaterThan(0);
    for (const name of files) rmSync(path.join(copy, 'dist', name));
    expect(help()).toBe(stdout);
  }
  rmSync(copy, { recursive: true });
});

test('reading commands load none of the modules that they use rarely, and no Kysely', () => {
  const copy = installation();
  try {
    const dist = path.join(copy, 'dist');
    const report = path.join(copy, 'report.cjs');
    writeFileSync(
      report,
      "process.on('exit', () => process.stderr.write(process.moduleLoadList.join('\\n')));",
    );
    for (const command of ['search', 'status']) {
      const args = ['--require', report, path.join(dist, 'mailkeep.cjs'), command, '--help'];
      const { status, stderr } = spawnSync(process.execPath, args, {
        env: { HOME: copy },
        encoding: 'utf8',
      });
      const loaded = stderr.split('\n');
      expect([status, loaded.includes('NativeModule zlib')]).toEqual([0, true]);
      for (const name of ['child_process', 'crypto', 'readline/promises', 'v8', 'worker_threads'])
        expect(loaded).not.toContain(`NativeModule ${name}`);
    }
    const script = readFileSync(path.join(dist, 'reading.script'), 'latin1');
    expect(script).toContain('commit_number');
    expect(script).not.toContain('SqliteQueryCompiler');
  } finally {
    rmSync(copy, { recursive: true });
  }
});
