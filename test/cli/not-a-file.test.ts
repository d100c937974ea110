import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, synced, type Workplace, workplace } from './child.ts';

/** Nothing ever writes to the pipes here: whoever opens one like a file waits until the test is cut off. */
let sandbox: Sandbox;
let original: Workplace;
beforeAll(async () => {
  ({ sandbox, work: original } = await synced({ seed: 5, mail: { messages: 20 } }));
});
afterAll(() => sandbox.close());

function copied(): Workplace {
  const place = workplace(sandbox);
  cpSync(original.data, place.data, { recursive: true });
  return place;
}

function pipeAt(file: string): string {
  rmSync(file, { force: true });
  execFileSync('mkfifo', [file]);
  return file;
}

function largestSegment(data: string): string {
  const folder = path.join(data, 'log');
  const files = readdirSync(folder).map((name) => path.join(folder, name));
  return files.sort((a, b) => statSync(b).size - statSync(a).size)[0] ?? '';
}

test('import refuses a pipe that was named, and passes by one in a folder', async () => {
  const { data, folder } = copied();
  for (const name of ['pipe', 'pipe.eml', 'pipe.mbox']) {
    const pipe = pipeAt(path.join(folder, name));
    const { code, stderr } = await mailkeep(['import', pipe, '--data', data]);
    expect([name, code !== 0, stderr]).toEqual([
      name,
      true,
      expect.stringContaining('it is not a regular file'),
    ]);
  }
  const mail = path.join(folder, 'mail');
  mkdirSync(mail);
  writeFileSync(path.join(mail, 'one.eml'), 'Subject: one\r\n\r\nHello.\r\n');
  pipeAt(path.join(mail, 'two.eml'));
  const { code, stdout } = await mailkeep(['import', mail, '--data', data]);
  expect(code).toBe(1);
  expect(stdout).toContain('two.eml');
});

test('a pipe instead of a default configuration or a token is reported in a sentence', async () => {
  const { data, config, folder } = copied();
  const pipe = pipeAt(path.join(folder, 'pipe'));
  const found = path.join(folder, 'found');
  mkdirSync(found);
  pipeAt(path.join(found, 'config.json'));
  const configured = await mailkeep(['status'], { cwd: found });
  expect([configured.code, configured.stderr]).toEqual([
    2,
    expect.stringContaining('it is not a regular file'),
  ]);
  const verified = await mailkeep(['verify', '--checkpoint', pipe, '--data', data]);
  expect(verified.stderr).toContain('it is not a regular file');
  pipeAt(path.join(folder, 'token'));
  const synchronised = await mailkeep(['sync', '--config', config]);
  expect([synchronised.code, synchronised.stderr]).toEqual([
    2,
    expect.stringContaining('it is not a regular file'),
  ]);
});

test('a pipe instead of a segment or FORMAT is damage', async () => {
  for (const name of ['segment', 'FORMAT']) {
    const { data } = copied();
    pipeAt(name === 'FORMAT' ? path.join(data, 'FORMAT') : largestSegment(data));
    for (const mode of [[], ['--quick']]) {
      const { code, stdout, stderr } = await mailkeep(['verify', ...mode, '--data', data]);
      expect([name, code, stderr]).toEqual([name, 3, '']);
      expect(stdout).toContain('DAMAGED');
    }
  }
});

const repaired = z.object({
  ok: z.boolean(),
  skippedCopies: z.array(z.object({ copy: z.string(), reason: z.string() })),
});

test('a hostile copy keeps no other from repairing, and is named', async () => {
  const { data, folder } = copied();
  const piped = path.join(folder, 'piped');
  const newer = path.join(folder, 'newer');
  const sound = path.join(folder, 'sound');
  for (const copy of [piped, newer, sound]) {
    expect((await mailkeep(['copy', '--to', copy, '--data', data])).code).toBe(0);
  }
  pipeAt(largestSegment(piped));
  writeFileSync(path.join(newer, 'FORMAT'), 'mailkeep archive 99\n');
  pipeAt(largestSegment(data));
  const from = [piped, newer, sound].flatMap((copy) => ['--from', copy]);
  const { code, stdout } = await mailkeep([
    'verify',
    '--repair',
    ...from,
    '--json',
    '--data',
    data,
  ]);
  expect([code, repaired.parse(JSON.parse(stdout))]).toEqual([
    0,
    { ok: true, skippedCopies: [{ copy: newer, reason: 'archive-format-newer' }] },
  ]);
  expect((await mailkeep(['verify', '--data', data])).code).toBe(0);
});
