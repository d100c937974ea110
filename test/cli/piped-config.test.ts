import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { type Ended, jsonLines, mailkeep, type Workplace, workplace } from './child.ts';

const MIB = 1024 * 1024;

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 20 } });
});
afterAll(() => sandbox.close());

/** A configuration with a token in it, in a file that everybody may read. */
function place(): Workplace {
  const made = workplace(sandbox, (config) => ({
    ...config,
    dataDir: './data',
    accounts: config.accounts.map((account) => ({ ...account, token: sandbox.tokens.mailbox })),
  }));
  execFileSync('chmod', ['644', made.config]);
  return made;
}

/** Runs the program in a shell, where `$0 $@` is the program with its arguments and `$CONFIG` the configuration. */
function inShell(script: string, args: readonly string[], at: Workplace): Promise<Ended> {
  const under = ['bash', '-c', script];
  return mailkeep(args, { under, cwd: at.folder, env: { CONFIG: at.config } });
}

const SUBSTITUTED = '"$0" "$@" --config <(cat "$CONFIG")';

test('a configuration comes through a pipe, and is read as often as the command needs it', async () => {
  const at = place();
  const warned = await mailkeep(['config', 'check', '--config', at.config]);
  expect(warned.stdout).toContain('can be read by others');
  const checked = await inShell(SUBSTITUTED, ['config', 'check', '--json'], at);
  expect([checked.code, checked.stderr]).toEqual([0, '']);
  expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true, accounts: 1, warnings: [] });
  const synced = await inShell(SUBSTITUTED, ['sync', '--quiet'], at);
  expect([synced.code, synced.stderr]).toEqual([0, '']);
  // The folder of the archive and the hosts of accounts are both in it.
  const found = await inShell(SUBSTITUTED, ['search', '--json', 'account:main'], at);
  expect([found.code, found.stderr]).toEqual([0, '']);
  expect(jsonLines(found.stdout).length).toBeGreaterThan(0);
  // Relative paths are relative to where the command runs.
  expect((await mailkeep(['status', '--data', at.data])).code).toBe(0);
});

test.each(['/dev/stdin', '/dev/fd/0'])('a configuration comes through %s', async (file) => {
  const at = place();
  for (const script of ['cat "$CONFIG" | "$0" "$@"', '"$0" "$@" < "$CONFIG"']) {
    const { code, stdout, stderr } = await inShell(
      script,
      ['config', 'show', '--json', '--config', file],
      at,
    );
    expect([script, code, stderr]).toEqual([script, 0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ file, source: '--config', dataDir: at.data });
  }
});

test('a named pipe is waited for, and its own folder counts', async () => {
  const at = place();
  const folder = path.join(at.folder, 'elsewhere');
  mkdirSync(folder);
  const pipe = path.join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const [shown] = await Promise.all([
    mailkeep(['config', 'show', '--json', '--config', pipe], { alone: true }),
    writeFile(pipe, readFileSync(at.config)),
  ]);
  expect([shown.code, shown.stderr]).toEqual([0, '']);
  expect(JSON.parse(shown.stdout)).toMatchObject({ dataDir: path.join(folder, 'data') });
});

const failed = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

test('what comes through a pipe is judged as a file is', async () => {
  const at = place();
  const wrong = (text: string) =>
    inShell(
      '"$0" "$@" --config <(printf %s "$TEXT")'.replace('$TEXT', text),
      ['config', 'check', '--json'],
      at,
    );
  for (const [text, code] of [
    ['', 'config-not-json'],
    ['{', 'config-not-json'],
    ['{}', 'config-invalid'],
  ] as const) {
    const { code: exit, stderr } = await wrong(text);
    expect([exit, failed.parse(JSON.parse(stderr)).error.code]).toEqual([2, code]);
  }
});

test('more than 1 MiB is no configuration, from a file or a pipe', async () => {
  const at = place();
  const config = readFileSync(at.config, 'utf8');
  for (const [bytes, code] of [
    [MIB, 0],
    [MIB + 1, 2],
  ] as const) {
    writeFileSync(at.config, config.padEnd(bytes));
    const file = await mailkeep(['config', 'check', '--config', at.config]);
    const pipe = await inShell(SUBSTITUTED, ['config', 'check'], at);
    expect([bytes, file.code, pipe.code]).toEqual([bytes, code, code]);
    const too =
      code === 0 ? '' : 'the file is too large (EFBIG).\nThe limit for a configuration is 1 MiB.';
    expect(file.stderr).toContain(too);
    expect(pipe.stderr).toContain(too);
  }
  // Whoever writes without end is not read to the end.
  const endless = '"$0" "$@" --config <(yes "{}")';
  expect((await inShell(endless, ['config', 'check'], at)).code).toBe(2);
});

test('a folder, a device and a socket are no configuration', async () => {
  const at = place();
  const socket = path.join(at.folder, 'socket');
  const server = createServer().listen(socket);
  onTestFinished(() => {
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  for (const [file, reason] of [
    [at.folder, 'it is a folder (EISDIR)'],
    ['/dev/null', 'it is not a regular file'],
    ['/dev/zero', 'it is not a regular file'],
    [socket, 'it is not a regular file'],
  ] as const) {
    const { code, stderr } = await mailkeep(['config', 'check', '--config', file]);
    expect([file, code, stderr]).toEqual([file, 2, expect.stringContaining(reason)]);
  }
});

test('a unit does not read its configuration from a pipe', async () => {
  const args = ['daemon', 'install', '--user', '--dry-run'];
  const { code, stdout, stderr } = await inShell(SUBSTITUTED, args, place());
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^mailkeep: \/dev\/fd\/\d+ is a pipe: a unit reads its configuration/);
});
