import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { WorkMeter } from '../../src/core/worker-thread.ts';
import { buildWorker } from '../mime/built-worker.ts';

/** A limit on work does not run out while the process is stopped, its machine is paused, or it gets no processor time. */

let program: string;
beforeAll(async () => {
  program = fileURLToPath(await buildWorker('test/regressions/stopped-process/program.ts'));
});

/** Runs the program, and stops it for `stopMs` once it has said a word. Returns all that it says. */
async function said(limitMs: number, stopAt: string, stopMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [program, String(limitMs)]);
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    lines.push(line);
    if (line !== stopAt) continue;
    child.kill('SIGSTOP');
    await wait(stopMs);
    child.kill('SIGCONT');
  }
  return lines;
}

describe.skipIf(process.platform !== 'linux')('a process that is stopped', () => {
  test.each(['spawned', 'started', 'working'])('once it is %s loses no work', async (stopAt) => {
    const lines = await said(1000, stopAt, 1500);
    expect(lines.slice(-2)).toEqual(['done', 'ended: closed']);
  });

  test('has the same limit on what it does', async () => {
    expect((await said(200, 'working', 300)).at(-1)).toBe('ended: timeout');
  });
});

describe('the work of a thread', () => {
  test('is its processor time', () => {
    let cpuMs = 500;
    const meter = new WorkMeter(() => ({ cpuMs, isRunning: true }));
    meter.restart();
    // Stopped, or without a processor: the looks come, in time or late.
    for (let tick = 0; tick < 1000; tick++) meter.tick(100);
    expect([meter.workedMs, meter.waitedMs]).toEqual([0, 0]);
    cpuMs += 70;
    meter.tick(100);
    expect([meter.workedMs, meter.waitedMs]).toEqual([70, 0]);
    meter.restart();
    expect(meter.workedMs).toBe(0);
  });

  test('is waiting where it waits for something else', () => {
    const meter = new WorkMeter(() => ({ cpuMs: 500, isRunning: false }));
    meter.restart();
    for (let tick = 0; tick < 10; tick++) meter.tick(100);
    expect([meter.workedMs, meter.waitedMs]).toEqual([0, 1000]);
  });

  test('is counted in looks where processor time cannot be read', () => {
    const meter = new WorkMeter(undefined);
    meter.restart();
    meter.tick(100);
    // However late this one came.
    meter.tick(100);
    expect(meter.workedMs).toBe(200);
  });
});
