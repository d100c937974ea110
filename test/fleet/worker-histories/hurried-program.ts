import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';

const root = fileURLToPath(new URL('../../..', import.meta.url));
/** Parts of the build that are used as they are. */
const BUILT = [
  ...['mime-worker', 'attachment-worker', 'seal-worker', 'verify-worker', 'content-worker'].map(
    (name) => `${name}.js`,
  ),
  'web',
];

/** Constants that have another value: what happens once a day or every 64 MiB happens in every history. */
const HURRIED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'src/archive/format.ts': { SEGMENT_BYTES: '48 * 1024' },
  'src/fleet/shard.ts': {
    ...{ shipMs: '400', lookMs: '100', gatherMs: '500', retryMs: '200', avoidMs: '60_000' },
    ...{ SHIP_BYTES: '16 * 1024', SNAPSHOT_MESSAGES: '25' },
  },
  'src/fleet/worker.ts': {
    ...{ pollMs: '300', renewMs: '500', refreshMs: '1_500', upkeepMs: '1_000' },
    ...{ settleMs: '400', DAY_MS: '1_000', recoverMs: '500' },
  },
  'src/fleet/sign-ins.ts': { AGAIN_MS: '300' },
  'src/fleet/recover.ts': { RECOVER_SETTLE_MS: '500' },
  'src/daemon/daemon.ts': { DISK_WAIT_MS: '300' },
  // A worker that is stopped within a transaction keeps others waiting no longer.
  'src/fleet/postgres.ts': { idleInTransactionMs: '2_000' },
};

/** Changes the constants as the files are read, and fails where one is not there. */
const hurry = (leaseMs: string): Plugin => ({
  name: 'hurry',
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/(?:archive\/format|daemon|fleet)\/[^/]+\.ts$/ }, ({ path: file }) => {
      const changes = HURRIED[path.relative(root, file).replaceAll(path.sep, '/')];
      if (changes === undefined) return undefined;
      let contents = readFileSync(file, 'utf8');
      const isWorker = file.endsWith('/src/fleet/worker.ts');
      for (const [name, value] of Object.entries({ ...changes, ...(isWorker && { leaseMs }) })) {
        const declared = new RegExp(`(\\b${name}(?: =|:) )\\d[\\d_* ]*`);
        if (!declared.test(contents)) throw new Error(`${file} has no constant ${name}`);
        contents = contents.replace(declared, `$1${value}`);
      }
      return { contents, loader: 'ts' };
    });
  },
});

/** Builds the program with small segments and short waits, and returns its file. The formats are the same. */
export async function buildHurriedProgram(leaseMs = '30_000'): Promise<string> {
  // Below the project, where its packages are found.
  const folder = path.join(root, 'node_modules', '.cache', `hurried-program-${leaseMs}`);
  const { calledLate, calledOnly, englishOnly, requestsOnly } = await import(
    new URL('../../../src/bootstrap/bundle-plugins.mjs', import.meta.url).href
  );
  await build({
    absWorkingDir: root,
    entryPoints: {
      mailkeep: 'src/cli/main.ts',
      'log-worker': 'src/archive/log-worker.ts',
      'fleet-session': 'src/fleet/session-thread.ts',
    },
    outdir: folder,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.15',
    // As in the build (src/bootstrap/build.mjs): loading hundreds of files is most of a start, and histories start often.
    external: ['better-sqlite3', 'pino', 'pino-pretty'],
    minifyWhitespace: true,
    minifySyntax: true,
    banner: {
      js: "import { createRequire as mailkeepRequire } from 'node:module'; const require = mailkeepRequire(import.meta.url);",
    },
    plugins: [hurry(leaseMs), calledLate, calledOnly, englishOnly, requestsOnly],
    logLevel: 'error',
  });
  for (const name of BUILT) {
    const link = path.join(folder, name);
    if (!existsSync(link)) symlinkSync(path.join(root, 'dist', name), link);
  }
  return path.join(folder, 'mailkeep.js');
}
