import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { DemoWorker } from '../../src/sandbox/demo-worker.ts';

const argv = [...process.argv];
afterEach(() => {
  process.argv = argv;
});

test('a worker that is killed within a line of its log is read up to there', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'demo-'));
  const program = path.join(folder, 'worker.cjs');
  const lines = `${JSON.stringify({ msg: 'shard taken over', shard: 3 })}\n{"msg":"run fin`;
  writeFileSync(
    program,
    `process.stdout.write(${JSON.stringify(lines)}); setInterval(() => {}, 1_000);`,
  );
  process.argv = [process.execPath, program];
  let worker: DemoWorker | undefined;
  await new Promise<void>((opened) => {
    worker = new DemoWorker(folder, {}, () => {
      opened();
      return 7;
    });
  });
  expect(() => worker?.refuseEnd()).not.toThrow();
  await worker?.kill();
  expect([...(worker?.open ?? [])]).toEqual([[3, 7]]);
  expect(worker?.mirrored.size).toBe(0);
  expect(() => worker?.refuseEnd()).toThrow(expect.objectContaining({ code: 'demo-server-ended' }));
});
