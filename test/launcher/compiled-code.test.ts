import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cachedCode, storeCode } from '../../src/cli/launcher/compiled-code.ts';
import { installation } from './installation.ts';

const root = process.geteuid?.() === 0;
if (!root) console.info('not root: the cache of another user was not tried');
/** No user of the system. */
const STRANGER = 54_321;

let copy: string;
let built: string;
let builtCode: Buffer;
let work: string;
let folder: string;
beforeAll(() => {
  copy = installation();
  const [name = ''] = codeFiles(path.join(copy, 'dist'));
  built = path.join(copy, 'dist', name);
  builtCode = readFileSync(built);
});
afterAll(() => {
  rmSync(copy, { recursive: true });
});
beforeEach(() => {
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-cache-'));
  folder = path.join(work, 'mailkeep');
  // Without usable code of the build, the program keeps its own.
  writeFileSync(built, 'damaged');
});
afterEach(() => {
  rmSync(work, { recursive: true });
});

function codeFiles(where: string): string[] {
  return readdirSync(where).filter((name) => name.endsWith('.code'));
}

/** Runs the help of a command to its end; `before` is the beginning of the command line. */
function help(
  env: Record<string, string> = { XDG_CACHE_HOME: work },
  command = 'search',
  before: string[] = [],
): void {
  const program = path.join(copy, 'dist', 'mailkeep.cjs');
  const [file = '', ...args] = [...before, process.execPath, program, command, '--help'];
  const { status, signal, stdout, stderr } = spawnSync(file, args, {
    env,
    encoding: 'utf8',
    // A watchdog: only a command that hangs is killed.
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  expect([status, signal, stderr]).toEqual([0, null, '']);
  expect(stdout).toContain(`mailkeep ${command}`);
}

/** The one file in the cache. */
function kept(): string {
  const names = readdirSync(folder);
  expect(names).toEqual([expect.stringMatching(/^reading-.*-search\.code$/)]);
  return path.join(folder, names[0] ?? '');
}

describe('damaged code', () => {
  /** A change of one place, at a fraction of the file. */
  const damages: [string, (code: Buffer) => void][] = [0, 0.1, 0.3, 0.5, 0.7, 0.9].flatMap((at) => [
    [
      `4 KiB of zeros at ${at}`,
      (code: Buffer) => {
        const start = Math.floor(at * code.length);
        code.fill(0, start, start + 4096);
      },
    ],
    [
      `one bit at ${at}`,
      (code: Buffer) => {
        const place = Math.floor(at * code.length);
        code.writeUInt8(code.readUInt8(place) ^ 4, place);
      },
    ],
  ]);
  function damaged(code: Buffer, damage: (copy: Buffer) => void): Buffer {
    const copyOfCode = Buffer.from(code);
    damage(copyOfCode);
    expect(copyOfCode.equals(code)).toBe(false);
    return copyOfCode;
  }

  test.each(damages)('in the cache is not run, and replaced: %s', (_, damage) => {
    help();
    const file = kept();
    const code = damaged(readFileSync(file), damage);
    writeFileSync(file, code);
    help();
    expect(readFileSync(kept()).equals(code)).toBe(false);
    const { ino } = lstatSync(file);
    help();
    expect(lstatSync(kept()).ino).toBe(ino);
  });

  test.each(damages)('of the build is not run, and the cache is used: %s', (_, damage) => {
    writeFileSync(built, damaged(builtCode, damage));
    help();
    kept();
  });

  test('code of the build that is intact needs no cache', () => {
    writeFileSync(built, builtCode);
    help();
    expect(existsSync(folder)).toBe(false);
  });

  test('code of another source is not used, nor is a file that ends within the checksum', () => {
    mkdirSync(folder, { mode: 0o700 });
    const file = path.join(folder, 'reading-x.code');
    const code = Buffer.from('compiled');
    storeCode(file, 1, () => code);
    expect(cachedCode(file, 1)).toEqual(code);
    expect(cachedCode(file, 2)).toBeUndefined();
    for (const length of [0, 1, 7, 8, 9]) {
      writeFileSync(file, readFileSync(file).subarray(0, length));
      expect(cachedCode(file, 1)).toBeUndefined();
    }
  });
});

describe('what is not ours alone', () => {
  test('a pipe does not hold up a command, and is replaced', () => {
    help();
    const file = kept();
    rmSync(file);
    expect(spawnSync('mkfifo', ['-m', '600', file]).status).toBe(0);
    help();
    expect(lstatSync(kept()).isFile()).toBe(true);
  });

  test('a link is not followed, and is replaced', () => {
    help();
    const file = kept();
    const elsewhere = path.join(work, 'elsewhere');
    renameSync(file, elsewhere);
    symlinkSync(elsewhere, file);
    help();
    expect(lstatSync(kept()).isFile()).toBe(true);
  });

  test('a folder that others may write to is neither read nor written', () => {
    help();
    const file = kept();
    const code = readFileSync(file);
    code.fill(0);
    writeFileSync(file, code);
    for (const mode of [0o777, 0o770, 0o702]) {
      chmodSync(folder, mode);
      help();
      expect(readFileSync(kept()).equals(code)).toBe(true);
    }
    chmodSync(folder, 0o700);
    help();
    expect(readFileSync(kept()).equals(code)).toBe(false);
  });

  test('code in a folder that others may write to, or behind a link to a folder, is not run', () => {
    mkdirSync(folder, { mode: 0o700 });
    const file = path.join(folder, 'reading-x.code');
    storeCode(file, 1, () => Buffer.from('compiled'));
    expect(cachedCode(file, 1)).toEqual(Buffer.from('compiled'));
    chmodSync(folder, 0o722);
    expect(cachedCode(file, 1)).toBeUndefined();
    chmodSync(folder, 0o700);
    const link = path.join(work, 'link');
    symlinkSync(folder, link);
    expect(cachedCode(path.join(link, 'reading-x.code'), 1)).toBeUndefined();
  });

  test.skipIf(!root)('root creates nothing in the home of another user', () => {
    const home = path.join(work, 'home');
    mkdirSync(home);
    chownSync(home, STRANGER, STRANGER);
    help({ HOME: home });
    expect(readdirSync(home)).toEqual([]);
    help({ XDG_CACHE_HOME: path.join(home, 'caches') });
    expect(readdirSync(home)).toEqual([]);
    // Also in a cache that is there.
    const own = path.join(home, '.cache', 'mailkeep');
    mkdirSync(own, { recursive: true, mode: 0o700 });
    for (const each of [path.dirname(own), own]) chownSync(each, STRANGER, STRANGER);
    help({ HOME: home });
    expect(readdirSync(own)).toEqual([]);
    // A home of our own has one after one command.
    chownSync(home, 0, 0);
    rmSync(path.join(home, '.cache'), { recursive: true });
    help({ HOME: home });
    expect(codeFiles(own)).toHaveLength(1);
  });
});

test('a write that fails leaves no file', () => {
  // Of 512 or 1024 bytes, as a full disk ends a write.
  help({ XDG_CACHE_HOME: work }, 'search', ['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh']);
  expect(readdirSync(folder)).toEqual([]);
  help();
  kept();
});

describe('code that another Node.js has compiled', () => {
  test('is replaced by our own in the cache of the user, and used from there', () => {
    help();
    const file = kept();
    const name = path.basename(file);
    expect(name).toMatch(
      new RegExp(`^reading-[0-9a-f]{12}-${process.version}-${process.arch}-search\\.code$`),
    );
    expect([statSync(folder).mode & 0o777, statSync(file).mode & 0o777]).toEqual([0o700, 0o600]);
    const { ino } = statSync(file);
    help();
    expect(statSync(file).ino).toBe(ino);
    // What others may have written is not run, and replaced.
    chmodSync(file, 0o620);
    help();
    expect(statSync(file).ino).not.toBe(ino);
    writeFileSync(file, 'damaged');
    help();
    expect(statSync(file).size).toBeGreaterThan(10_000);
    help({ XDG_CACHE_HOME: work }, 'list');
    expect(readdirSync(folder).sort()).toEqual([name.replace('search', 'list'), name]);
  });

  test('is left as it is where there is no cache to write', () => {
    const file = path.join(work, 'file');
    writeFileSync(file, 'a file');
    help({});
    for (const caches of [file, '/proc/nowhere']) help({ XDG_CACHE_HOME: caches });
    help({ XDG_CACHE_HOME: 'relative', HOME: 'relative' });
    expect(readdirSync(copy).sort()).toEqual(['dist', 'node_modules', 'package.json']);
  });

  test('is removed from the cache a month after it was last written', () => {
    mkdirSync(folder);
    const names = ['reading-0-v22.15.0-x64-list.code', 'reading-0-v22.15.0-x64-list.7.tmp', 'mine'];
    for (const name of names) {
      writeFileSync(path.join(folder, name), '');
      utimesSync(path.join(folder, name), 0, 0);
    }
    writeFileSync(path.join(folder, 'reading-0-v24.0.0-x64-list.code'), '');
    help();
    expect(readdirSync(folder).sort()).toEqual([
      'mine',
      'reading-0-v24.0.0-x64-list.code',
      expect.stringContaining('search'),
    ]);
  });
});
