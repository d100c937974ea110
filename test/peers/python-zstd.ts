import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { absent, notCompared } from './programs.ts';

/** A Python that has one way to decompress zstd, or none. */
export interface PythonWithZstd {
  readonly python: string;
  readonly env: NodeJS.ProcessEnv;
}

const MODULES = ['compression.zstd', 'zstandard'] as const;

/** Where Debian's modules are, which another Python that comes first in PATH does not have. */
const SYSTEM_PYTHON = '/usr/bin/python3';

/**
 * Returns the ways by which a Python of this machine decompresses zstd, by name, and without each of the others. A module
 * counts as missing in a Python that is started with PYTHONPATH set to a folder made below `top`.
 *
 * @throws Error where MAILKEEP_PEERS=required and the module zstandard or the program zstd is missing;
 *   `compression.zstd` takes Python 3.14, which not every system has
 */
export function pythonsWithZstd(top: string): Map<string, PythonWithZstd> {
  const ways = new Map<string, PythonWithZstd>();
  for (const module of MODULES) {
    const python = ['python3', SYSTEM_PYTHON].find((name) => canImport(name, module));
    if (python !== undefined) ways.set(module, restricted(top, python, { module }));
    else if (module === 'zstandard') notCompared('no Python has the module zstandard');
    else console.warn('not compared: no Python has the module compression.zstd (Python 3.14)');
  }
  if (!absent('zstd')) ways.set('the program zstd', restricted(top, 'python3', { program: true }));
  return ways;
}

/** Returns a Python that has no way to decompress zstd. */
export function pythonWithoutZstd(top: string): PythonWithZstd {
  return restricted(top, 'python3', {});
}

function canImport(python: string, module: string): boolean {
  return spawnSync(python, ['-c', `import ${module}`]).status === 0;
}

function restricted(
  top: string,
  python: string,
  { module, program = false }: { module?: string; program?: boolean },
): PythonWithZstd {
  const missing = MODULES.filter((name) => name !== module);
  const folder = join(top, `without ${missing.join(' ')}`);
  mkdirSync(folder, { recursive: true });
  // Python imports this by itself; a module that is None there cannot be imported.
  const lines = missing.map((name) => `sys.modules[${JSON.stringify(name)}] = None\n`);
  writeFileSync(join(folder, 'sitecustomize.py'), `import sys\n${lines.join('')}`);
  const { stdout } = spawnSync(python, ['-c', 'import sys; print(sys.executable)']);
  const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
  return {
    python: String(stdout ?? '').trim(),
    env: program ? env : { ...env, PATH: join(top, 'no programs') + delimiter },
  };
}
