import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Builds dist/ before the tests when it is older than its sources. */
export function setup(): void {
  const needs = new URL('../src/bootstrap/needs.mjs', import.meta.url).href;
  const { status } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', `import { needBuild } from '${needs}'; needBuild();`],
    { cwd: fileURLToPath(new URL('..', import.meta.url)), stdio: ['ignore', 'inherit', 'inherit'] },
  );
  if (status !== 0) throw new Error('the build failed; see above');
}
