import { join } from 'node:path';
import type { FileLayer } from './file-layer.ts';

/**
 * Returns the same files, without those at certain paths: no folder lists them. A segment that may not be opened is then
 * to every reader one that is not there.
 *
 * @param hidden paths as `join` makes them
 */
export function filesWithout(files: FileLayer, hidden: ReadonlySet<string>): FileLayer {
  return {
    open: (path, access) => files.open(path, access),
    list: (folder) => files.list(folder).filter((name) => !hidden.has(join(folder, name))),
    makeFolder: (folder) => files.makeFolder(folder),
    rename: (from, to) => files.rename(from, to),
    remove: (path) => files.remove(path),
    syncFolder: (folder) => files.syncFolder(folder),
    modifiedAt: (path) => files.modifiedAt(path),
  };
}
