import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
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

describe('code that another Node.js has compiled', () => {
  let copy: string;
  let caches: string;
  beforeEach(() => {
    copy = installation();
    caches = path.join(copy, 'caches');
    for (const name of readdirSync(path.join(copy, 'dist'))) {
      if (name.endsWith('.code'))
        writeFileSync(path.join(copy, 'dist', name), 'of another version');
    }
  });
  afterEach(() => {
    rmSync(copy, { recursive: true });
  });

  function help(env: Record<string, string>, command = 'search'): void {
    const program = path.join(copy, 'dist', 'mailkeep.cjs');
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, command, '--help'], {
      env,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`mailkeep ${command}`);
  }
  const inCache = () => readdirSync(path.join(caches, 'mailkeep')).sort();

  test('is replaced by our own in the cache of the user, and used from there', () => {
    const env = { XDG_CACHE_HOME: caches };
    help(env);
    const [name = '', ...more] = inCache();
    expect([name, more]).toEqual([
      expect.stringMatching(
        new RegExp(`^reading-[0-9a-f]{12}-${process.version}-${process.arch}-search\\.code$`),
      ),
      [],
    ]);
    const folder = path.join(caches, 'mailkeep');
    const file = path.join(folder, name);
    expect([statSync(folder).mode & 0o777, statSync(file).mode & 0o777]).toEqual([0o700, 0o600]);
    const { ino } = statSync(file);
    help(env);
    expect(statSync(file).ino).toBe(ino);
    // What others may have written is not run, and replaced.
    chmodSync(file, 0o620);
    help(env);
    expect(statSync(file).ino).not.toBe(ino);
    writeFileSync(file, 'damaged');
    help(env);
    expect(statSync(file).size).toBeGreaterThan(10_000);
    help(env, 'list');
    expect(inCache()).toEqual([name.replace('search', 'list'), name]);
  });

  test('is left as it is where there is no cache to write', () => {
    help({});
    writeFileSync(caches, 'a file');
    help({ XDG_CACHE_HOME: caches });
    help({ XDG_CACHE_HOME: '/proc/nowhere' });
    help({ XDG_CACHE_HOME: 'relative', HOME: 'relative' });
    expect(readdirSync(copy).sort()).toEqual(['caches', 'dist', 'node_modules', 'package.json']);
  });

  test('is removed from the cache a month after it was last written', () => {
    const folder = path.join(caches, 'mailkeep');
    mkdirSync(folder, { recursive: true });
    const names = ['reading-0-v22.15.0-x64-list.code', 'reading-0-v22.15.0-x64-list.7.tmp', 'mine'];
    for (const name of names) {
      writeFileSync(path.join(folder, name), '');
      utimesSync(path.join(folder, name), 0, 0);
    }
    writeFileSync(path.join(folder, 'reading-0-v24.0.0-x64-list.code'), '');
    help({ XDG_CACHE_HOME: caches });
    expect(inCache()).toEqual([
      'mine',
      'reading-0-v24.0.0-x64-list.code',
      expect.stringContaining('search'),
    ]);
  });
});
