import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import type { scanLog } from '../../src/archive/log-reader.ts';
import type { openLogWriter } from '../../src/archive/log-writer.ts';
import type { SealResult } from '../../src/archive/seal.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The last commit whose program knows format 1 only. */
const LAST_OF_FORMAT_1 = 'c90a0c4';

/** What that program did with archives; its shapes are those of today. */
export interface PreviousProgram {
  readonly openLogWriter: typeof openLogWriter;
  readonly scanLog: typeof scanLog;
  readonly sealClosedSegments: (options: {
    readonly dir: string;
    readonly before: number;
  }) => Promise<SealResult>;
}

/** Whether the history of the project holds that program: a shallow clone, or a package without history, does not. */
export function lacksHistory(): boolean {
  const name = `${LAST_OF_FORMAT_1}^{commit}`;
  const { status } = spawnSync('git', ['cat-file', '-e', name], { cwd: root, stdio: 'ignore' });
  if (status === 0) return false;
  console.info(`skipped: the history of the project has no commit ${LAST_OF_FORMAT_1}`);
  return true;
}

/** Builds the archive's part of that program from the history, in a folder of its own, and loads it. */
export async function previousProgram(): Promise<PreviousProgram & { readonly folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'mailkeep-previous-'));
  const sources = join(folder, 'sources');
  mkdirSync(sources);
  const archive = execFileSync('git', ['archive', LAST_OF_FORMAT_1, 'src'], {
    cwd: root,
    maxBuffer: 1 << 28,
  });
  execFileSync('tar', ['-x', '-C', sources], { input: archive });
  const outfile = join(folder, 'previous.mjs');
  await build({
    stdin: {
      contents: `
        export { openLogWriter } from './src/archive/open-log-writer.ts';
        export { scanLog } from './src/archive/scan-log.ts';
        export { sealClosedSegments } from './src/archive/seal-segment.ts';
      `,
      resolveDir: sources,
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
  });
  const loaded: PreviousProgram = await import(pathToFileURL(outfile).href);
  return { ...loaded, folder };
}
