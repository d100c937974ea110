import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** Builds a worker as its source is now, apart from dist/, and returns its file. */
export async function buildWorker(source = 'src/mail/mime-worker.ts'): Promise<URL> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(`../../${source}`, import.meta.url))],
    write: false,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.15',
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    logLevel: 'error',
  });
  const code = outputFiles[0]?.contents ?? new Uint8Array();
  const dir = join(tmpdir(), 'mailkeep-test-workers');
  const name = createHash('sha256').update(code).digest('hex').slice(0, 16);
  const file = join(dir, `${name}.mjs`);
  if (!existsSync(file)) {
    mkdirSync(dir, { recursive: true });
    // Several test files build at once: each sees none or all of it.
    writeFileSync(`${file}.${process.pid}`, code);
    renameSync(`${file}.${process.pid}`, file);
  }
  return pathToFileURL(file);
}
