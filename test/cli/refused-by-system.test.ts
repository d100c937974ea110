import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { SmallDisk } from '../archive/small-disk.ts';
import { NOBODY, unprivileged, unrefused } from './as-nobody.ts';
import { type Ended, mailkeep, program, synced, type Workplace, workplace } from './child.ts';

let sandbox: Sandbox;
let original: Workplace;
let id: string;
beforeAll(async () => {
  ({ sandbox, work: original } = await synced({ seed: 5, mail: { messages: 20 } }));
  const { stdout } = await mailkeep(['list', '--json', '--data', original.data]);
  id = z.object({ id: z.string() }).parse(JSON.parse(stdout.split('\n')[0] ?? '')).id;
});
afterAll(() => sandbox.close());

/** Modes that a test took away, for whoever removes its folder. */
const closed: string[] = [];
afterEach(() => {
  for (const folder of closed.splice(0)) chmodSync(folder, 0o755);
});

/** A copy of the synced archive that everybody may read, and nobody but its owner may write. */
function readable(): Workplace {
  const place = workplace(sandbox);
  cpSync(original.data, place.data, { recursive: true });
  chmodSync(place.folder, 0o755);
  execFileSync('chmod', ['-R', 'a+rX,go-w', place.folder]);
  if (process.getuid?.() !== 0) execFileSync('chmod', ['-R', 'a-w', place.data]);
  return place;
}

function close(folder: string): void {
  chmodSync(folder, process.getuid?.() === 0 ? 0o700 : 0o000);
  closed.push(folder);
}

function expectSentence({ stderr }: Ended, about: readonly string[]): void {
  expect(stderr, about.join(' ')).toMatch(/^mailkeep: \S/m);
  expect(stderr, about.join(' ')).not.toMatch(/Unexpected error|bug in mailkeep|\n {4}at /);
  expect(stderr.length, about.join(' ')).toBeLessThan(900);
}

describe.skipIf(unrefused !== null)(`where the system refuses (${unrefused ?? 'tried'})`, () => {
  test('an archive that may not be looked into is not said to be missing', async () => {
    const { data } = readable();
    close(data);
    const lines = [
      ...[['status'], ['list'], ['search', 'a'], ['show', id], ['history', id]],
      ...[['verify'], ['rebuild'], ['compact'], ['export', '--format', 'eml', '--to', 'out']],
    ];
    for (const line of lines) {
      const ended = await unprivileged([...line, '--data', data]);
      expect([line, ended.code]).toEqual([line, 1]);
      expect(ended.stderr).toContain(`The archive ${data} cannot be read: permission denied`);
      expectSentence(ended, line);
    }
  });

  test('a log that may not be read is a sentence in every command, and a failed check', async () => {
    const { data, config } = readable();
    close(path.join(data, 'log'));
    const lines = [
      ...[['status'], ['show', id], ['verify'], ['verify', '--sample', '3']],
      ...[
        ['search', 'a', '--save', 'mine'],
        ['sync', '--config', config],
      ],
      ...[
        ['import', config],
        ['rebuild'],
        ['copy', '--to', 'elsewhere'],
        ['doctor', '--config', config],
      ],
    ];
    for (const line of lines) {
      const ended = await unprivileged([...line, '--data', data]);
      expect([line, ended.code === 0]).toEqual([line, false]);
      if (line[0] === 'doctor') expect(ended.stdout).toMatch(/^FAILED +log: .*permission denied/m);
      else expectSentence(ended, line);
    }
  });

  test('doctor tries what a sync needs, and names what cannot be written', async () => {
    const { data, config } = readable();
    const sound = await mailkeep(['doctor', '--config', original.config]);
    expect([sound.code, sound.stdout]).toEqual([0, expect.stringMatching(/^ok +log: /m)]);
    expect(sound.stdout).toMatch(/^ok +write: /m);
    const before = readdirSync(data);
    const { code, stdout } = await unprivileged(['doctor', '--config', config, '--data', data]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^FAILED +write: .*permission denied \(EACCES\)/m);
    expect(stdout).toMatch(/^FAILED +lock: .*permission denied \(EACCES\)/m);
    expect(readdirSync(data)).toEqual(before);
  });

  test('doctor names a file that a sync appends to and may not write, in folders that it may', async () => {
    for (const name of [
      'segment',
      'catalog.sqlite-wal',
      'catalog.sqlite-shm',
      'state.sqlite-wal',
    ]) {
      const { data, config } = readable();
      execFileSync('chmod', ['-R', 'u+rwX,a+rwX', data]);
      const log = path.join(data, 'log');
      const segment = readdirSync(log).filter((file) => file.endsWith('.1.seg'));
      expect(segment).toHaveLength(1);
      const file = name === 'segment' ? path.join(log, ...segment) : path.join(data, name);
      writeFileSync(file, '', { flag: 'a' });
      chmodSync(file, 0o666);
      const line = ['doctor', '--config', config, '--data', data];
      const before = await unprivileged(line);
      expect([name, before.stdout]).toEqual([name, expect.stringMatching(/^ok +log: /m)]);
      writeFileSync(file, '', { flag: 'a' });
      chmodSync(file, process.getuid?.() === 0 ? 0o644 : 0o444);
      const { code, stdout } = await unprivileged(line);
      expect([name, code]).toEqual([name, 1]);
      expect(stdout).toMatch(/^FAILED +log: .*permission denied \(EACCES\)/m);
      expect(stdout.replaceAll(/\s+/g, '')).toContain(file);
    }
  });

  test('a drill removes the mail that a killed one left in the temporary folder', async () => {
    const { data, folder } = readable();
    const temporary = path.join(folder, 'temporary');
    const left = path.join(temporary, `mailkeep-drill-${2 ** 30}-00000000-abcdef`);
    mkdirSync(left, { recursive: true });
    writeFileSync(path.join(left, 'mail.eml'), 'Subject: private');
    if (process.getuid?.() === 0) {
      for (const owned of [temporary, left]) chownSync(owned, NOBODY, NOBODY);
    }
    const env = { TMPDIR: temporary };
    const { code } = await unprivileged(['verify', '--drill', '2', '--data', data], { env });
    expect([code, readdirSync(temporary)]).toEqual([0, []]);
  });

  test('an archive that can only be read is verified; that nothing is remembered is a warning', async () => {
    const { data } = readable();
    for (const mode of [[], ['--sample', '100%'], ['--drill', '5']]) {
      const { code, stdout, stderr } = await unprivileged(['verify', ...mode, '--data', data]);
      expect([mode, code, stdout]).toEqual([
        mode,
        0,
        expect.stringMatching(/as it was written|match the log/),
      ]);
      expect(stderr).toMatch(
        /^warning: the result could not be remembered\. .*(?:read-only|denied)/m,
      );
    }
    const json = await unprivileged(['verify', '--json', '--data', data]);
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: true, remembered: false });
    const folder = path.join(data, 'log');
    const files = readdirSync(folder).map((name) => path.join(folder, name));
    const [file = ''] = files.sort((a, b) => statSync(b).size - statSync(a).size);
    const bytes = readFileSync(file);
    bytes[2_000] = (bytes[2_000] ?? 0) ^ 1;
    chmodSync(file, 0o644);
    writeFileSync(file, bytes);
    const damaged = await unprivileged(['verify', '--data', data]);
    expect([damaged.code, damaged.stdout]).toEqual([3, expect.stringContaining('DAMAGED')]);
  });
});

test('on a full disk the verdict of a verification is printed, and the rest is a warning', async ({
  skip,
}) => {
  const disk = SmallDisk.mounted(8 * 1024 * 1024);
  if (disk === undefined) return skip('only root may mount a file system to fill');
  try {
    const data = path.join(disk.dir, 'data');
    cpSync(original.data, data, { recursive: true });
    disk.leave(0);
    for (const mode of [[], ['--quick'], ['--sample', '5']]) {
      const { code, stdout, stderr } = await mailkeep(['verify', ...mode, '--data', data]);
      expect([mode, code, stderr]).toEqual([mode, 0, expect.stringContaining('be remembered')]);
      expect(stdout).toContain('Everything is as it was written.');
      expect(stderr).not.toContain('Unexpected error');
    }
  } finally {
    disk.unmount();
  }
});

/** Runs a shell line over the program; `$mailkeep` stands for it. */
function shell(line: string, env: Record<string, string> = {}) {
  const { status, stderr } = spawnSync('bash', ['-c', line], {
    encoding: 'utf8',
    env: {
      PATH: process.env.PATH ?? '',
      HOME: original.folder,
      ...env,
      mailkeep: program,
      node: process.execPath,
    },
  });
  return { code: status, stderr };
}

describe('standard output', () => {
  test.each([
    ['--help'],
    ['search --help'],
    ['--version'],
    ['status'],
    ['status --json'],
    ['list'],
    ['list --json'],
    ['search a'],
    ['verify'],
  ])('%s on a full disk is one sentence and code 1', (line) => {
    const { code, stderr } = shell(
      `"$node" "$mailkeep" ${line} --config ${original.config} > /dev/full`,
    );
    const message =
      'Standard output cannot be written: no space left (ENOSPC). The result is incomplete.';
    const hint = 'Free some space, or write it somewhere else.';
    expect(code).toBe(1);
    if (line.endsWith('--json')) {
      expect(JSON.parse(stderr)).toEqual({ error: { code: 'output-failed', message, hint } });
    } else expect(stderr).toBe(`mailkeep: ${message}\n${hint}\n`);
  });

  test('the exact source on a full disk, and a reader that goes away', () => {
    const raw = `"$node" "$mailkeep" show ${id} --raw --data ${original.data}`;
    expect(shell(`${raw} > /dev/full`)).toMatchObject({ code: 1 });
    const list = `"$node" "$mailkeep" list --data ${original.data}`;
    expect(shell(`${list} | true; exit \${PIPESTATUS[0]}`)).toEqual({ code: 0, stderr: '' });
    expect(shell(`${list} --json | head -1 > /dev/null; exit \${PIPESTATUS[0]}`)).toEqual({
      code: 0,
      stderr: '',
    });
  });

  test('damage ends with code 3, whether or not its report arrives', async () => {
    const { data } = readable();
    const folder = path.join(data, 'log');
    const [file = ''] = readdirSync(folder).map((name) => path.join(folder, name));
    const bytes = readFileSync(file);
    const at = Math.floor(bytes.length / 3);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    for (const line of ['verify', 'verify --json', 'status', 'status --json', 'verify --quick']) {
      const command = `"$node" "$mailkeep" ${line} --data ${data}`;
      expect([line, (await mailkeep([...line.split(' '), '--data', data])).code]).toEqual([
        line,
        3,
      ]);
      const gone = shell(`${command} | true; exit \${PIPESTATUS[0]}`);
      expect([line, gone]).toEqual([line, { code: 3, stderr: '' }]);
      const full = shell(`${command} > /dev/full`);
      expect([line, full.code]).toEqual([line, 3]);
      expect(full.stderr).toContain('Standard output cannot be written');
    }
  });
});

test('an error that nobody expected is a sentence; its stack is for those who ask', () => {
  const broken =
    'data:text/javascript,setTimeout(() => { throw new TypeError("out of nowhere") }, 1)';
  const line = `"$node" --import '${broken}' "$mailkeep" sandbox --port 0`;
  const { code, stderr } = shell(line);
  expect(code).toBe(1);
  expect(stderr.split('\n')).toEqual([
    'mailkeep: Unexpected error: TypeError: out of nowhere',
    expect.stringContaining('Please report it'),
    '',
  ]);
  expect(shell(line, { MAILKEEP_DEBUG: '1' }).stderr).toMatch(/\n {4}at /);
});
