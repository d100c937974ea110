import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SimulatedDisk } from '../../archive/simulated-disk.ts';

/** Files with their bytes and folders, by paths below a folder; without the shared memory of SQLite. */
export interface FolderTree {
  readonly files: ReadonlyMap<string, Buffer>;
  readonly folders: readonly string[];
}

export function readTree(root: string): FolderTree {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true }).map((entry) => ({
    entry,
    name: path.relative(root, path.join(entry.parentPath, entry.name)),
  }));
  const files = entries
    .filter(({ entry, name }) => entry.isFile() && !name.endsWith('-shm'))
    .map(({ name }): [string, Buffer] => [name, readFileSync(path.join(root, name))]);
  const folders = entries.filter(({ entry }) => entry.isDirectory()).map(({ name }) => name);
  return { files: new Map(files.sort(([a], [b]) => (a < b ? -1 : 1))), folders: folders.sort() };
}

/** The same of a simulated disk. */
export function treeOf(disk: SimulatedDisk, root: string): FolderTree {
  const below = (name: string): string => path.relative(root, name);
  const folders = disk.folders().filter((folder) => folder.startsWith(`${root}/`));
  return {
    files: new Map(disk.paths().map((file) => [below(file), disk.read(file)])),
    folders: folders.map(below),
  };
}

/** A tree without some folders (paths below `root`) and what is in them. */
export function without(tree: FolderTree, root: string, lost: readonly string[]): FolderTree {
  const prefixes = lost.map((folder) => `${path.relative(root, folder)}/`);
  const isLeft = (name: string) => !prefixes.some((prefix) => `${name}/`.startsWith(prefix));
  return {
    files: new Map([...tree.files].filter(([name]) => isLeft(name))),
    folders: tree.folders.filter(isLeft),
  };
}

/** Replaces whatever is there with a tree. */
export function writeTree(root: string, { files, folders }: FolderTree): void {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { mode: 0o700 });
  for (const folder of folders) {
    mkdirSync(path.join(root, folder), { recursive: true, mode: 0o700 });
  }
  for (const [name, bytes] of files) {
    writeFileSync(path.join(root, name), bytes, { mode: 0o600 });
  }
}
