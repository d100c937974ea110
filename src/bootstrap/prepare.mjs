/**
 * npm's `prepare` step: builds, so that `npm ci` leaves a runnable program. `npm install --global .` links the clone
 * without its dependencies, so they are installed here. Without the build tools (`npm ci --omit=dev`) the existing
 * dist/ must do.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { needDependencies, program } from './needs.mjs';

function canBuild() {
  try {
    createRequire(import.meta.url).resolve('esbuild');
    return true;
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return false;
    throw error;
  }
}

if (process.env.npm_config_global === 'true' && !canBuild()) needDependencies();

if (canBuild()) {
  await import('./build.mjs');
} else if (existsSync(program)) {
  process.stderr.write('mailkeep: build tools are not installed; dist/ is left as it is.\n');
} else {
  process.stderr.write(
    'mailkeep: this folder is not built, and the build tools are not installed. Run "npm ci" in it (without --omit=dev), and then the same command again.\n',
  );
  process.exitCode = 1;
}
