import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { build } from 'esbuild';
import { expect, onTestFinished, test } from 'vitest';

test('what one document leaves behind is not the failure of the next', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-stray-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const outfile = path.join(folder, 'worker.mjs');
  await build({
    entryPoints: [fileURLToPath(new URL('stray-worker.ts', import.meta.url))],
    bundle: true,
    format: 'esm',
    platform: 'node',
    outfile,
  });
  const worker = new Worker(outfile, { execArgv: [] });
  onTestFinished(async () => {
    await worker.terminate();
  });
  expect(await once(worker, 'message')).toEqual([['first', 'second', 'Error: its own']]);
});
