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

/** Returns a folder that the first test file of a run makes. @param make returns the folder, which is moved */
export async function oncePerRun(
  name: string,
  make: () => string | Promise<string>,
): Promise<string> {
  // Outside of tests, the temporary folder outlives a run, and may hold an earlier build.
  if (process.env.VITEST === undefined) return make();
  const kept = path.join(tmpdir(), name);
  if (existsSync(kept)) return kept;
  const made = await make();
  try {
    renameSync(made, kept);
  } catch (error) {
    // Another file was first.
    if (!existsSync(kept)) throw error;
  }
  return kept;
}

/**
 * Packs what was built as the registry would get it, unpacks it next to its dependencies, and returns its program: a
 * file that the package lacks is missing here, too.
 */
export async function packedProgram(): Promise<string> {
  const folder = await oncePerRun('packed', unpack);
  return path.join(folder, 'node_modules/package/dist/mailkeep.cjs');
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
