import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { addRuntime, gone, installation, isRunning, oldNodes } from './installation.ts';

const probe = fileURLToPath(new URL('./probe.mjs', import.meta.url));
const onTerminal = fileURLToPath(new URL('./on_terminal.py', import.meta.url));
const python = spawnSync('python3', ['--version']).status === 0;
if (!python) console.info('python3 is missing: not tried on a terminal');

let folder: string;
let program: string;
beforeAll(() => {
  folder = installation();
  program = path.join(folder, 'dist', 'mailkeep.cjs');
  // The launcher is what is tested here; what it starts says what has reached it.
  cpSync(probe, path.join(folder, 'dist', 'mailkeep.js'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  rmSync(path.join(folder, '.runtime'), { recursive: true, force: true });
});

describe.each(oldNodes())('on Node.js $version', ({ version, command: [node = '', ...flags] }) => {
  function start(args: string[], file = program) {
    // Without a terminal, as in a service, and in a group of its own.
    const child = spawn(node, [...flags, file, ...args], { detached: true });
    const ended = Promise.all([text(child.stderr), once(child, 'close')]).then(([stderr]) => ({
      code: child.exitCode,
      signal: child.signalCode,
      stderr,
    }));
    const lines = createInterface({ input: child.stdout });
    const line = async (): Promise<unknown> => JSON.parse((await once(lines, 'line'))[0]);
    return { child, ended, line, pid: child.pid ?? 0 };
  }

  test('without a runtime it ends at once, and names both versions', async () => {
    const hint =
      'Install a newer one (https://nodejs.org). In a clone of the repository, npm start brings one that mailkeep alone uses.';
    const message = `mailkeep needs Node.js 22.15 or newer; this is ${version}.`;
    expect(await start(['exit', '0']).ended).toEqual({
      code: 2,
      signal: null,
      stderr: `${message}\n${hint}\n`,
    });
    const { code, stderr } = await start(['search', '--json', 'x']).ended;
    expect([code, JSON.parse(stderr)]).toEqual([
      2,
      { error: { code: 'node-too-old', message, hint } },
    ]);
  });

  test('a runtime that is too old, of another platform, or does not start is not used', async () => {
    for (const marker of ['22.14.0 linux-x64', '24.21.0 plan9-x64', '']) {
      addRuntime(folder, marker);
      const { code, stderr } = await start(['exit', '0']).ended;
      expect([code, stderr]).toEqual([2, expect.stringContaining(`this is ${version}.`)]);
      rmSync(path.join(folder, '.runtime'), { recursive: true });
    }
    addRuntime(folder, undefined, '/nonexistent');
    const { code, stderr } = await start(['exit', '0']).ended;
    expect(code).toBe(2);
    expect(stderr).toContain(`${path.join(folder, '.runtime/bin/node')} does not start (ENOENT)`);
  });

  test('arguments, input, output, exit codes and fatal signals are those of the program', async () => {
    addRuntime(folder);
    const echo = start(['echo', '--data', 'a b', '']);
    const said = echo.line();
    echo.child.stdin.end('typed');
    expect(await said).toEqual({
      args: ['--data', 'a b', ''],
      file: program,
      execPath: process.execPath,
      stdin: 'typed',
    });
    expect(await echo.ended).toEqual({ code: 0, signal: null, stderr: '' });
    expect(await start(['exit', '130']).ended).toMatchObject({ code: 130, signal: null });
    for (const signal of ['SIGTERM', 'SIGKILL']) {
      expect(await start(['die', signal]).ended).toMatchObject({ code: null, signal });
    }
  });

  test('it is found through links, as of npm link', async () => {
    addRuntime(folder);
    const bin = path.join(folder, 'elsewhere');
    mkdirSync(bin);
    symlinkSync(program, path.join(bin, 'mailkeep'));
    expect(await start(['exit', '9'], path.join(bin, 'mailkeep')).ended).toMatchObject({ code: 9 });
    rmSync(bin, { recursive: true });
  });

  test('signals reach the program once, sent to the launcher or to its group', async () => {
    addRuntime(folder);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      for (const to of [(pid: number) => pid, (pid: number) => -pid]) {
        const { line, ended, pid } = start(['wait']);
        await line();
        for (const also of ['SIGHUP', 'SIGUSR2'] as const) {
          const heard = line();
          process.kill(to(pid), also);
          expect(await heard).toEqual({ heard: also });
        }
        const heard = line();
        process.kill(to(pid), signal);
        expect(await heard).toEqual({ SIGINT: 0, SIGTERM: 0, SIGHUP: 1, SIGUSR2: 1, [signal]: 1 });
        expect(await ended).toEqual({ code: 42, signal: null, stderr: '' });
      }
    }
  });

  test.skipIf(!python)('Ctrl-C reaches the program once', () => {
    addRuntime(folder);
    const args = [onTerminal, node, ...flags, program, 'wait'];
    const { stdout, stderr } = spawnSync('python3', args, { encoding: 'utf8' });
    const [, heard = '', code] = stdout.split('\n');
    // The terminal shows the key that was pressed.
    expect([heard.replace('^C', ''), code, stderr]).toEqual([
      JSON.stringify({ SIGINT: 1, SIGTERM: 0, SIGHUP: 0, SIGUSR2: 0 }),
      '42',
      '',
    ]);
  });

  test('a launcher that is killed takes the program along, also while it computes', async () => {
    addRuntime(folder);
    // Busy for good from the beginning and later, and with nothing to do.
    for (const args of [['busy', '0'], ['busy', '300'], ['wait']]) {
      const { child, line, ended } = start(args);
      const { pid } = z.object({ pid: z.int() }).parse(await line());
      expect(isRunning(pid)).toBe(true);
      const killedAt = performance.now();
      child.kill('SIGKILL');
      await gone(pid);
      console.info(`${args.join(' ')}: gone ${(performance.now() - killedAt).toFixed(0)} ms later`);
      await ended;
    }
  });

  test.skipIf(!existsSync('/proc/self/fd'))(
    'what the program starts gets no end of the pipe',
    async () => {
      addRuntime(folder);
      const { pipe, child } = z
        .object({ pipe: z.string(), child: z.string() })
        .parse(await start(['descriptors']).line());
      expect(pipe).toMatch(/^socket:/);
      expect(child).toContain('/proc/');
      expect(child).not.toContain(pipe);
    },
  );
});

test('a Node.js that is new enough hands over to no other', () => {
  addRuntime(folder, undefined, '/nonexistent');
  const { status, stderr } = spawnSync(process.execPath, [program, 'exit', '5']);
  expect([status, String(stderr)]).toEqual([5, '']);
});

test('the launcher comes with all that it loads', () => {
  const files = readdirSync(path.join(folder, 'dist')).filter((name) => name.endsWith('.cjs'));
  expect(files.sort()).toEqual(['hand-over.cjs', 'handed-over.cjs', 'load.cjs', 'mailkeep.cjs']);
});
