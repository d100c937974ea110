import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const manifest = z.object({ dependencies: z.record(z.string(), z.string()) });

/** Moves a folder to where the other test files of a run find it, unless one of them was first. */
export function keepForRun(made: string, kept: string): void {
  try {
    renameSync(made, kept);
  } catch (error) {
    if (!existsSync(kept)) throw error;
  }
}

/**
 * Packs what was built as the registry would get it, unpacks it next to its dependencies, and returns its program: a
 * file that the package lacks is missing here, too.
 */
export function packedProgram(): string {
  const kept = path.join(tmpdir(), 'packed');
  if (!existsSync(kept)) keepForRun(unpack(), kept);
  return path.join(kept, 'node_modules/package/dist/mailkeep.cjs');
}

function unpack(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'packed-'));
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
  execFileSync('npm', pack, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  const [package_ = ''] = readdirSync(folder);
  const modules = path.join(folder, 'node_modules');
  mkdirSync(modules);
  execFileSync('tar', ['-xzf', path.join(folder, package_), '-C', modules]);
  const { dependencies } = manifest.parse(
    JSON.parse(readFileSync(path.join(modules, 'package/package.json'), 'utf8')),
  );
  for (const name of Object.keys(dependencies))
    symlinkSync(path.join(root, 'node_modules', name), path.join(modules, name));
  return folder;
}
