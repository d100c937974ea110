import type { FileLayer, LogFile } from '../archive/file-layer.ts';
import { errnoOf } from '../errors/archive.ts';

/** What a disk gives back or not, at the most. Bytes. */
const SECTOR = 4_096;

/** Bytes that the disk does not give back; `end` is excluded. */
export interface BadStretch {
  readonly offset: number;
  end: number;
}

/**
 * A file for reading of which everything comes that the disk gives back: what it does not (EIO) reads as zeros, so that
 * the checks find what stood there, and is added to `bad`.
 */
function overBadSectors(file: LogFile, bad: BadStretch[]): LogFile {
  const read = (target: Uint8Array, position: number): number => {
    try {
      return file.read(target, position);
    } catch (error) {
      if (errnoOf(error) !== 'EIO') throw error;
    }
    const toNext = SECTOR - (position % SECTOR);
    const length = Math.max(0, Math.min(target.length, toNext, file.size() - position));
    // One sector at a time: those before the bad one are wanted.
    if (length < target.length)
      return length === 0 ? 0 : read(target.subarray(0, length), position);
    target.fill(0);
    const last = bad.at(-1);
    const goesOn = last !== undefined && position >= last.offset && position <= last.end;
    if (goesOn) last.end = Math.max(last.end, position + length);
    else bad.push({ offset: position, end: position + length });
    return length;
  };
  const readOnly = () => Promise.reject(new Error('read only'));
  return {
    read,
    size: () => file.size(),
    close: () => file.close(),
    write: readOnly,
    datasync: readOnly,
    truncate: readOnly,
  };
}

/** The same files, read over bad sectors; `bad` has those of the file that was opened last. */
export function filesOverBadSectors(files: FileLayer, bad: BadStretch[] = []): FileLayer {
  return {
    open(path, access) {
      const file = files.open(path, access);
      bad.length = 0;
      return overBadSectors(file, bad);
    },
    list: (folder) => files.list(folder),
    makeFolder: (folder) => files.makeFolder(folder),
    rename: (from, to) => files.rename(from, to),
    remove: (path) => files.remove(path),
    syncFolder: (folder) => files.syncFolder(folder),
    modifiedAt: (path) => files.modifiedAt(path),
  };
}
