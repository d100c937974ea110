import { spawnSync } from 'node:child_process';
import { notCompared } from './programs.ts';

/** Debian's modules are in the second one, and another Python may come first in PATH. */
const PYTHONS = ['python3', '/usr/bin/python3'];

/**
 * Returns a Python that has the module cryptography, or undefined.
 *
 * @throws Error if there is none and MAILKEEP_PEERS=required
 */
export function pythonWithCryptography(): string | undefined {
  const found = PYTHONS.find((python) => {
    const { status } = spawnSync(python, ['-c', 'import cryptography']);
    return status === 0;
  });
  if (found === undefined) notCompared('no Python has the module cryptography');
  return found;
}
