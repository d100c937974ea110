import { execFileSync } from 'node:child_process';
import {
  accessSync,
  constants,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const oldNode = fileURLToPath(new URL('../bootstrap/old-node.cjs', import.meta.url));

/** A copy of what is built, as a clone or a package has it. Returns its folder; `dist/mailkeep.cjs` in it is the program. */
export function installation(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-installed-'));
  cpSync(path.join(root, 'dist'), path.join(folder, 'dist'), { recursive: true });
  cpSync(path.join(root, 'package.json'), path.join(folder, 'package.json'));
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

/** Adds a runtime, which is the Node.js of the tests unless `binary` is another file. */
export function addRuntime(
  folder: string,
  version = `${process.versions.node} ${process.platform}-${process.arch}`,
  binary = process.execPath,
): void {
  const runtime = path.join(folder, '.runtime');
  mkdirSync(path.join(runtime, 'bin'), { recursive: true });
  symlinkSync(binary, path.join(runtime, 'bin', 'node'));
  writeFileSync(path.join(runtime, 'version'), `${version}\n`);
}

interface OldNode {
  readonly version: string;
  readonly command: readonly string[];
}

/** Our own Node.js that gives itself out as an old one, and a real one where the PATH has one. */
export function oldNodes(): OldNode[] {
  const found = (process.env.PATH ?? '')
    .split(path.delimiter)
    .map((folder) => path.join(folder, 'node'))
    .filter(runs)
    .map((file) => ({ version: versionOf(file), command: [file] }))
    .filter(({ version }) => Number(version.split('.')[0]) < 22);
  const [real] = found;
  if (real === undefined)
    console.info('no old Node.js on the PATH: tried with a disguised one only');
  const disguised = { version: '20.20.2', command: [process.execPath, '--require', oldNode] };
  return [disguised, ...(real === undefined ? [] : [real])];
}

function runs(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function versionOf(file: string): string {
  return execFileSync(file, ['--print', 'process.versions.node'], { encoding: 'utf8' }).trim();
}

/** Whether a process runs; one that has ended does not, though its new parent may not have noticed yet. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

/** Resolves when a process has ended. */
export async function gone(pid: number): Promise<void> {
  while (isRunning(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}
