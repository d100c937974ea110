import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { withCleanup } from '../../src/daemon/daemon-process.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';

let sandbox: Sandbox;
let taken: Server;
const places: Workplace[] = [];
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 3 } });
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
});
afterEach(() => {
  for (const { folder } of places.splice(0)) rmSync(folder, { recursive: true, force: true });
});
afterAll(async () => {
  taken.close();
  await sandbox.close();
});

/** A workplace whose daemon starts everything that it can start, at free ports but for one. */
function place(atTakenPort: string | null): Workplace {
  const address = taken.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const listen = (section: string) => `127.0.0.1:${section === atTakenPort ? address.port : 0}`;
  const made = daemonWorkplace(sandbox, (config) => ({
    ...config,
    health: { listen: listen('health') },
    web: { listen: listen('web') },
    webhook: { listen: listen('webhook') },
    notify: { command: 'true', url: null },
  }));
  places.push(made);
  return made;
}

const STEPS = [
  { fails: 'health', code: 2, says: 'health.listen' },
  { fails: 'web', code: 2, says: 'web.listen' },
  { fails: 'webhook', code: 2, says: 'webhook.listen' },
  {
    fails: 'a control socket whose place is taken',
    code: 2,
    says: 'control.sock',
    spoil: ({ data }: Workplace) => {
      mkdirSync(path.join(data, 'control.sock', 'full'), { recursive: true });
    },
    mend: ({ data }: Workplace) => rmSync(path.join(data, 'control.sock'), { recursive: true }),
  },
] as const;

test.each(STEPS)(
  'a start that fails at $fails stops all that was started, and says why',
  async (step) => {
    const at = place(step.fails);
    if ('spoil' in step) step.spoil(at);
    // It ends by itself: nothing that was started keeps the process.
    const first = new RunningDaemon(at);
    const { code, stderr } = await first.ended;
    expect(stderr).toContain(step.says);
    expect(stderr).not.toMatch(/Unexpected|bug/);
    expect(first.child.signalCode).toBeNull();
    expect(code).toBe(step.code);
    expect(first.lines.filter(({ msg }) => msg === 'ready' || msg.includes('bug'))).toEqual([]);
    if (existsSync(path.join(at.data, 'control.sock')))
      expect(step.fails).toContain('control socket');
    if (!('mend' in step)) return;
    step.mend(at);
    const again = new RunningDaemon(at);
    await again.message('ready');
    expect(await again.end()).toBe(0);
  },
);

test('a start that is interrupted at any moment ends with 0 and leaves nothing locked', async () => {
  const at = place(null);
  const moments = ['health listens', 'webhooks are received'];
  for (const moment of moments) {
    for (const name of ['SIGTERM'] as const) {
      const daemon = new RunningDaemon(at);
      await daemon.message(moment);
      daemon.signal(name);
      const { code, stderr } = await daemon.ended;
      expect([moment, name, code, stderr]).toEqual([moment, name, 0, '']);
      expect(existsSync(path.join(at.data, 'control.sock'))).toBe(false);
    }
  }
});

test('what was started is stopped in reverse order, though one stop fails, and the first error counts', async () => {
  for (let failing = 0; failing <= 4; failing += 1) {
    const stopped: number[] = [];
    const ended = withCleanup(async (onStop) => {
      for (let step = 0; step < 4; step += 1) {
        if (step === failing) throw new Error(`step ${step}`);
        onStop(() => {
          stopped.push(step);
          if (step === 1) throw new Error('stop 1');
        });
      }
      return 'done';
    });
    const expected = failing < 4 ? `step ${failing}` : 'stop 1';
    await expect(ended).rejects.toThrow(expected);
    expect(stopped).toEqual([3, 2, 1, 0].filter((step) => step < failing));
  }
  expect(await withCleanup(async () => 7)).toBe(7);
});
