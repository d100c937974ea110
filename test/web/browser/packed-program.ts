import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const manifest = z.object({ dependencies: z.record(z.string(), z.string()) });

let unpacked: string | undefined;

/**
 * Packs what was built as the registry would get it, unpacks it next to its dependencies, and returns its program: a
 * file that the package lacks is missing here, too.
 */
export function packedProgram(): string {
  unpacked ??= unpack();
  return unpacked;
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
  return path.join(modules, 'package/dist/mailkeep.cjs');
}
