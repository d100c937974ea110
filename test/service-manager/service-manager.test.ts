import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { serviceManager, watchdogMs } from '../../src/daemon/integrations.ts';

const present = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const canTalk = present('systemd-notify') && present('python3');
if (!canTalk) console.info('systemd-notify or python3 is missing: not talked to a service manager');

let listener: ChildProcess | undefined;
let folder: string | undefined;
afterEach(() => {
  listener?.kill('SIGKILL');
  if (folder !== undefined) rmSync(folder, { recursive: true });
  [listener, folder] = [undefined, undefined];
});

/** A socket as systemd's, and what came over it. */
async function listen(): Promise<{
  socket: string;
  got: string[];
  until(line: string): Promise<void>;
}> {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-sd-'));
  const socket = path.join(folder, 'notify');
  const script = fileURLToPath(new URL('./notify_socket.py', import.meta.url));
  const child = spawn('python3', [script, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  listener = child;
  const got: string[] = [];
  let waiting: { line: string; resolve: () => void }[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    got.push(line);
    for (const wait of waiting) if (line.includes(wait.line)) wait.resolve();
    waiting = waiting.filter((wait) => !line.includes(wait.line));
  });
  const until = (line: string): Promise<void> =>
    got.some((each) => each.includes(line))
      ? Promise.resolve()
      : new Promise((resolve) => waiting.push({ line, resolve }));
  await until('bound');
  return { socket, got, until };
}

describe.skipIf(!canTalk)('with the socket of a service manager', () => {
  test('it hears of readiness, status, the watchdog and the end, in this order', async () => {
    const { socket, got, until } = await listen();
    const errors: string[] = [];
    const manager = serviceManager(
      { PATH: process.env.PATH, NOTIFY_SOCKET: socket, WATCHDOG_USEC: '100000' },
      (reason) => errors.push(reason),
    );
    manager.ready('two mailboxes\nREADY=0');
    manager.startWatchdog();
    await until('WATCHDOG=1');
    manager.status('a pass is under way');
    manager.stopping();
    await until('STOPPING=1');
    await manager.close();
    const said = got.filter((line) => !/^(bound|BARRIER=1|WATCHDOG=1)$/.test(line));
    expect(said).toEqual([
      expect.stringMatching(/^READY=1 .*STATUS=two mailboxes READY=0/),
      expect.stringMatching(/^STATUS=a pass is under way/),
      expect.stringMatching(/^STOPPING=1/),
    ]);
    expect(errors).toEqual([]);
  });

  test('a socket that nobody listens on is reported, and harms nothing', async () => {
    const errors: string[] = [];
    const manager = serviceManager(
      { PATH: process.env.PATH, NOTIFY_SOCKET: path.join(tmpdir(), 'mailkeep-no-such-socket') },
      (reason) => errors.push(reason),
    );
    manager.ready('x');
    await manager.close();
    expect(errors).toEqual([expect.stringMatching(/^exit code \d+$/)]);
  });
});

test('outside a unit nothing is spawned; a missing systemd-notify is reported', async () => {
  const errors: string[] = [];
  const report = (reason: string) => errors.push(reason);
  const outside = serviceManager({ PATH: '/nowhere', WATCHDOG_USEC: '1000' }, report);
  outside.ready('x');
  outside.startWatchdog();
  await outside.close();
  expect(errors).toEqual([]);
  const inside = serviceManager({ PATH: '/nowhere', NOTIFY_SOCKET: '/run/x' }, report);
  inside.ready('x');
  await inside.close();
  expect(errors).toEqual(['ENOENT']);
});

test('the watchdog is heard at half of its patience, and only by the process it is meant for', () => {
  expect(watchdogMs({ WATCHDOG_USEC: '30000000' })).toBe(15_000);
  expect(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' }, 7)).toBe(15_000);
  expect(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' }, 7)).toBe(null);
  for (const odd of ['', 'x', '0', '-1']) expect(watchdogMs({ WATCHDOG_USEC: odd })).toBe(null);
  expect(watchdogMs({})).toBe(null);
});
