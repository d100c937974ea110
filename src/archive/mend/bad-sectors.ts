import { basename } from 'node:path';
import { logDamaged } from '../../errors/archive.ts';
import { errnoName } from '../../errors/mailkeep-error.ts';
import type { FileLayer, LogFile } from '../files/file-layer.ts';
import { parseSegmentName } from '../format/layout.ts';

/** What a disk gives back or not, at the most. Bytes. */
const SECTOR = 4_096;

/** Bytes that the disk does not give back; `end` is excluded. */
interface BadStretch {
  readonly offset: number;
  readonly end: number;
}

/** Which sectors of the file that was opened last the disk does not give back, however often they are read. */
export class BadSectors {
  readonly #sectors = new Set<number>();

  note(position: number): void {
    this.#sectors.add(Math.floor(position / SECTOR));
  }

  forget(): void {
    this.#sectors.clear();
  }

  /** In order of offset; adjacent sectors form one stretch. */
  stretches(): BadStretch[] {
    const found: { offset: number; end: number }[] = [];
    for (const sector of [...this.#sectors].sort((a, b) => a - b)) {
      const offset = sector * SECTOR;
      const last = found.at(-1);
      if (last?.end === offset) last.end += SECTOR;
      else found.push({ offset, end: offset + SECTOR });
    }
    return found;
  }
}

/**
 * Returns the same files over a disk with bad sectors. Reading returns everything that the disk can read; the rest
 * (EIO) reads as zeros, so that the checks find it, and is noted in `bad`. Use it only where bad sectors are reported:
 * zeros behind the last remaining commit look like unfinished work.
 */
export function filesOverBadSectors(files: FileLayer, bad = new BadSectors()): FileLayer {
  return readBy(files, (file) => {
    bad.forget();
    return overBadSectors(file, bad);
  });
}

/** The same files. Bytes of a segment that the disk does not give back (EIO) are `log-damaged`, with their place. */
export function filesWithDamage(files: FileLayer): FileLayer {
  return readBy(files, (file, path) => (target, position) => {
    try {
      return file.read(target, position);
    } catch (error) {
      const name = parseSegmentName(basename(path));
      if (errnoName(error) !== 'EIO' || name === undefined) throw error;
      const { segment } = name;
      throw logDamaged({ file: path, segment, offset: position, reason: 'unreadable' });
    }
  });
}

function readBy(
  files: FileLayer,
  readOf: (file: LogFile, path: string) => LogFile['read'],
): FileLayer {
  return {
    open(path, access) {
      const file = files.open(path, access);
      if (access !== 'read') return file;
      return {
        read: readOf(file, path),
        size: () => file.size(),
        write: (bytes, position) => file.write(bytes, position),
        datasync: () => file.datasync(),
        truncate: (length) => file.truncate(length),
        close: () => file.close(),
      };
    },
    list: (folder) => files.list(folder),
    makeFolder: (folder) => files.makeFolder(folder),
    rename: (from, to) => files.rename(from, to),
    remove: (path) => files.remove(path),
    syncFolder: (folder) => files.syncFolder(folder),
    modifiedAt: (path) => files.modifiedAt(path),
  };
}

function overBadSectors(file: LogFile, bad: BadSectors): LogFile['read'] {
  const read = (target: Uint8Array, position: number): number => {
    try {
      return file.read(target, position);
    } catch (error) {
      if (errnoName(error) !== 'EIO') throw error;
    }
    const toNext = SECTOR - (position % SECTOR);
    const length = Math.max(0, Math.min(target.length, toNext, file.size() - position));
    // One sector at a time: those before the bad one are wanted.
    if (length < target.length)
      return length === 0 ? 0 : read(target.subarray(0, length), position);
    target.fill(0);
    bad.note(position);
    return length;
  };
  return read;
}
