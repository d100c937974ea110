import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { workplace } from '../cli/child.ts';
import { addRuntime, gone, installation, isRunning, oldNodes } from './installation.ts';

let folder: string;
let sandbox: Sandbox;
beforeAll(async () => {
  folder = installation();
  addRuntime(folder);
  sandbox = await startSandbox({ seed: 5, mail: { messages: 300 } });
});
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true });
});

const [old] = oldNodes();

function start(...args: string[]): ChildProcessWithoutNullStreams {
  const [node = '', ...flags] = old?.command ?? [];
  const program = path.join(folder, 'dist', 'mailkeep.cjs');
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, XDG_CONFIG_HOME: folder };
  return spawn(node, [...flags, program, ...args], { cwd: folder, detached: true, env });
}

/** The process that the launcher waits for. */
function programOf({ pid }: ChildProcess): number {
  const found = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .find((name) => parentOf(name) === pid);
  if (found === undefined) throw new Error('the launcher has no child');
  return Number(found);
}

function parentOf(pid: string): number | null {
  try {
    return Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    // It has ended in the meantime.
    return null;
  }
}

/** Kills a launcher, and resolves when the program that it has started is gone as well. */
async function kill(launcher: ChildProcess): Promise<void> {
  const program = programOf(launcher);
  expect(isRunning(program)).toBe(true);
  const killedAt = performance.now();
  launcher.kill('SIGKILL');
  await gone(program);
  console.info(`gone ${(performance.now() - killedAt).toFixed(0)} ms later`);
}

/** Slow enough to be killed in the middle. */
const slow = () =>
  workplace(sandbox, (config) => ({ ...config, rateLimit: { requestsPerMinute: 600 } }));

test.each([['sync'], ['daemon']])(
  '%s: killed through the launcher, it leaves the archive',
  async (name) => {
    const place = slow();
    const launcher = start(name, '--config', place.config);
    const asked = sandbox.requests().total;
    while (sandbox.requests().total < asked + 5) {
      expect([launcher.exitCode, launcher.signalCode]).toEqual([null, null]);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await kill(launcher);
    const fast = workplace(sandbox, (config) => ({ ...config, dataDir: place.data }));
    const next = start('sync', '--json', '--config', fast.config);
    const [stdout, stderr] = await Promise.all([
      text(next.stdout),
      text(next.stderr),
      once(next, 'exit'),
    ]);
    expect([next.exitCode, stderr]).toEqual([0, '']);
    const { certificates } = JSON.parse(stdout) as { certificates: { stored: number }[] };
    expect(certificates.reduce((sum, { stored }) => sum + stored, 0)).toBe(300);
    for (const used of [place, fast]) rmSync(used.folder, { recursive: true });
  },
);

test('sandbox: killed through the launcher, it serves nobody', async () => {
  const launcher = start('sandbox', '--port', '0', '--seed', '7');
  const [line] = await once(createInterface({ input: launcher.stdout }), 'line');
  const { mailboxUrl } = JSON.parse(line) as { mailboxUrl: string };
  expect((await fetch(mailboxUrl)).status).toBeGreaterThan(0);
  await kill(launcher);
  await expect(fetch(mailboxUrl)).rejects.toThrow('fetch failed');
});

test('units start the program with the runtime itself, and not through the launcher', async () => {
  const dry = start('daemon', 'install', '--user', '--dry-run');
  const [stdout, stderr] = await Promise.all([text(dry.stdout), text(dry.stderr)]);
  const program = path.join(folder, 'dist', 'mailkeep.cjs');
  expect([stderr, stdout]).toEqual([
    '',
    expect.stringContaining(`ExecStart=${process.execPath} ${program} daemon`),
  ]);
});
