/**
 * Builds dist/ from src/: the command line, the library and the worker threads, as ES modules that share
 * chunks. Dependencies are bundled, because resolving hundreds of small files is most of a cold start;
 * what is native or starts threads of its own stays outside.
 *
 * Files are replaced one by one and only where their content changed, so that a program that runs from
 * dist/ while it is built finds whole files. `--clean` empties dist/ first; `--types` adds declarations.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('../../', import.meta.url));
const dist = path.join(root, 'dist');
const program = path.join(dist, 'mailkeep.js');

const entries = {
  mailkeep: 'src/cli/main.ts',
  index: 'src/index.ts',
  'mime-worker': 'src/mime/worker.ts',
  // For start.mjs, which must know where the program looks for its configuration.
  'config-places': 'src/config/locate.ts',
};

if (process.argv.includes('--clean')) rmSync(dist, { recursive: true, force: true });
const startedAt = new Date();
const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: Object.fromEntries(
    Object.entries(entries).filter(([, file]) => existsSync(path.join(root, file))),
  ),
  outdir: 'dist',
  write: false,
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
  legalComments: 'none',
  // Less to parse at each start; names stay, for stack traces.
  minifyWhitespace: true,
  minifySyntax: true,
  sourcemap: false,
  logLevel: 'warning',
});

mkdirSync(dist, { recursive: true });
for (const { path: file, contents } of outputFiles) {
  if (existsSync(file) && readFileSync(file).equals(contents)) continue;
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, contents);
  renameSync(temporary, file);
}
if (existsSync(program)) {
  chmodSync(program, 0o755);
  // The age of the build, whether or not this file changed: see needs.mjs.
  utimesSync(program, startedAt, startedAt);
}

/** A program that runs may still load a chunk of the build before; an hour later it has. */
const CHUNK_GRACE_MS = 3_600_000;
const fresh = new Set(outputFiles.map((file) => path.basename(file.path)));
for (const name of readdirSync(dist)) {
  const file = path.join(dist, name);
  const leftOver = !fresh.has(name) && (name.startsWith('chunk-') || name.endsWith('.tmp'));
  if (leftOver && statSync(file).mtimeMs < Date.now() - CHUNK_GRACE_MS) rmSync(file);
}

if (process.argv.includes('--types')) {
  const tsc = spawnSync(
    process.execPath,
    [
      path.join(root, 'node_modules/typescript/bin/tsc'),
      '-p',
      path.join(root, 'src/bootstrap/tsconfig.types.json'),
    ],
    { stdio: 'inherit' },
  );
  process.exitCode = tsc.status ?? 1;
}
