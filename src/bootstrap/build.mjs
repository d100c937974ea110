/**
 * Builds dist/ from src/: the command line, the library and the worker threads, as ES modules that share
 * chunks. Dependencies are bundled, because resolving hundreds of small files is most of a cold start;
 * what is native or starts threads of its own stays outside.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('../../', import.meta.url));
const entries = {
  mailkeep: 'src/cli/main.ts',
  index: 'src/index.ts',
  'mime-worker': 'src/mime/worker.ts',
};

rmSync(`${root}dist`, { recursive: true, force: true });
await build({
  absWorkingDir: root,
  entryPoints: Object.fromEntries(
    Object.entries(entries).filter(([, file]) => existsSync(`${root}${file}`)),
  ),
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: ['better-sqlite3', 'pino', 'pino-pretty'],
  // CommonJS dependencies call require() for Node's own modules.
  banner: {
    js: "import { createRequire as mailkeepRequire } from 'node:module'; const require = mailkeepRequire(import.meta.url);",
  },
  chunkNames: 'chunk-[hash]',
  sourcemap: false,
  logLevel: 'warning',
});

if (process.argv.includes('--types')) {
  const tsc = spawnSync(
    process.execPath,
    [
      `${root}node_modules/typescript/bin/tsc`,
      '-p',
      root,
      '--noEmit',
      'false',
      '--emitDeclarationOnly',
      '--declaration',
      '--outDir',
      `${root}dist/types`,
    ],
    { stdio: 'inherit' },
  );
  process.exitCode = tsc.status ?? 1;
}
