import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** Builds the worker as it is in src/ now, apart from dist/, and returns its file. */
export async function buildWorker(): Promise<URL> {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-worker-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
  const outfile = join(dir, 'mime-worker.mjs');
  await build({
    entryPoints: [fileURLToPath(new URL('../../src/mime/worker.ts', import.meta.url))],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    logLevel: 'error',
  });
  return pathToFileURL(outfile);
}
