import { dirname } from 'node:path';
import type { FileLayer, LogFile } from '../../src/archive/file-system.ts';

const PAGE_BYTES = 4096;

/** Every call that changes the disk, in the order the archive makes them. */
export type DiskAct =
  | 'create'
  | 'write'
  | 'datasync'
  | 'truncate'
  | 'rename'
  | 'remove'
  | 'makeFolder'
  | 'syncFolder';

/**
 * Asked before each act; throws to make it fail. For a write it may return how many bytes are taken (a short write).
 *
 * @param count how many acts of any kind came before
 */
export type Fault = (
  act: DiskAct,
  path: string,
  count: number,
  bytes: number,
) => number | undefined;

/** Thrown by every act of a disk whose process was killed. */
export class Killed extends Error {}

/** Chooses, for each thing that was not made durable, whether a power cut leaves it. */
export type Survives = () => boolean;

interface Inode {
  bytes: Buffer;
  /** What a power cut certainly leaves. */
  durable: Buffer;
  /** Pages written since, which it may leave or not, one by one. */
  readonly dirty: Set<number>;
  modifiedAt: number;
}

type NameChange = { readonly path: string; readonly inode: Inode | undefined };

/**
 * A disk in memory that behaves like a bad day: writes that take less than they were given, no room, failing syncs, a
 * process that is killed at any act, and a power cut that loses what was not synced, page by page and out of order, as
 * page caches do. Changes of names are lost from the end, as journals do.
 */
export class SimulatedDisk {
  /** Milliseconds since the epoch, for modification times. */
  now = 0;
  /** Acts so far. */
  acts = 0;
  fault: Fault = () => undefined;
  /** Bytes that fit; without it there is always room. */
  capacity = Number.POSITIVE_INFINITY;
  readonly #names = new Map<string, Inode>();
  readonly #durableNames = new Map<string, Inode>();
  readonly #pending = new Map<string, NameChange[]>();
  readonly #folders = new Set<string>();
  #dead = false;

  readonly files: FileLayer = {
    open: (path, access) => {
      this.#alive();
      const found = this.#names.get(path);
      if (access !== 'create') {
        if (found === undefined) throw systemError('ENOENT', path);
        return this.#handle(path, found, access === 'write');
      }
      if (found !== undefined) throw systemError('EEXIST', path);
      if (!this.#folders.has(dirname(path))) throw systemError('ENOENT', path);
      this.#act('create', path, 0);
      const inode = newInode(this.now);
      this.#name(path, inode);
      return this.#handle(path, inode, true);
    },
    list: (folder) => {
      this.#alive();
      if (!this.#folders.has(folder)) throw systemError('ENOENT', folder);
      return [...this.#names.keys()]
        .filter((path) => dirname(path) === folder)
        .map((path) => path.slice(folder.length + 1));
    },
    makeFolder: (folder) => {
      this.#act('makeFolder', folder, 0);
      for (let at = folder; at !== dirname(at); at = dirname(at)) this.#folders.add(at);
    },
    rename: async (from, to) => {
      const inode = this.#names.get(from);
      if (inode === undefined) throw systemError('ENOENT', from);
      this.#act('rename', to, 0);
      // A file system that does not journal both as one has the new name first: a cut may leave both, never neither.
      this.#name(to, inode);
      this.#name(from, undefined);
    },
    remove: async (path) => {
      if (!this.#names.has(path)) throw systemError('ENOENT', path);
      this.#act('remove', path, 0);
      this.#name(path, undefined);
    },
    syncFolder: async (folder) => {
      this.#act('syncFolder', folder, 0);
      for (const { path, inode } of this.#pending.get(folder) ?? []) {
        if (inode === undefined) this.#durableNames.delete(path);
        else this.#durableNames.set(path, inode);
      }
      this.#pending.delete(folder);
    },
    modifiedAt: (path) => {
      const inode = this.#names.get(path);
      if (inode === undefined) throw systemError('ENOENT', path);
      return inode.modifiedAt;
    },
  };

  /** Paths of all files. */
  paths(): string[] {
    return [...this.#names.keys()].sort();
  }

  /** Paths of all folders. */
  folders(): string[] {
    return [...this.#folders].sort();
  }

  /** At once, and durably. */
  removeFolder(folder: string): void {
    this.#folders.delete(folder);
  }

  read(path: string): Buffer {
    const inode = this.#names.get(path);
    if (inode === undefined) throw systemError('ENOENT', path);
    return Buffer.from(inode.bytes);
  }

  /** Puts a file there, durable at once. */
  put(path: string, bytes: Buffer): void {
    for (let at = dirname(path); at !== dirname(at); at = dirname(at)) this.#folders.add(at);
    const inode = newInode(this.now);
    inode.bytes = Buffer.from(bytes);
    inode.durable = inode.bytes;
    this.#names.set(path, inode);
    this.#durableNames.set(path, inode);
  }

  /** Flips bits of a byte on the disk itself: whoever has the file open sees it too. */
  rot(path: string, at: number): void {
    const inode = this.#names.get(path);
    if (inode === undefined) throw systemError('ENOENT', path);
    const bytes = Buffer.from(inode.bytes);
    bytes[at] = (bytes[at] ?? 0) ^ 0xff;
    inode.bytes = bytes;
    inode.durable = bytes;
  }

  delete(path: string): void {
    this.#names.delete(path);
    this.#durableNames.delete(path);
  }

  /** The same disk for the next process, after this one was killed: whatever was written is there. */
  afterKill(): SimulatedDisk {
    this.#dead = true;
    const next = new SimulatedDisk();
    next.now = this.now;
    for (const folder of this.#folders) next.#folders.add(folder);
    const copies = new Map<Inode, Inode>();
    const copy = (inode: Inode): Inode => {
      const known = copies.get(inode) ?? { ...inode, dirty: new Set(inode.dirty) };
      copies.set(inode, known);
      return known;
    };
    for (const [path, inode] of this.#names) next.#names.set(path, copy(inode));
    for (const [path, inode] of this.#durableNames) next.#durableNames.set(path, copy(inode));
    for (const [folder, changes] of this.#pending) {
      next.#pending.set(
        folder,
        changes.map(({ path, inode }) => ({ path, inode: inode && copy(inode) })),
      );
    }
    return next;
  }

  /** The disk as the machine finds it after a power cut. Folders are taken to be durable. */
  afterPowerCut(survives: Survives): SimulatedDisk {
    this.#dead = true;
    return this.leftByPowerCut(survives);
  }

  /** Returns what a power cut would leave at this moment; this disk keeps running. */
  leftByPowerCut(survives: Survives): SimulatedDisk {
    const next = new SimulatedDisk();
    next.now = this.now;
    for (const folder of this.#folders) next.#folders.add(folder);
    const names = new Map(this.#durableNames);
    for (const changes of this.#pending.values()) {
      for (const { path, inode } of changes) {
        if (!survives()) break;
        if (inode === undefined) names.delete(path);
        else names.set(path, inode);
      }
    }
    for (const [path, inode] of names) next.put(path, remains(inode, survives));
    return next;
  }

  #name(path: string, inode: Inode | undefined): void {
    if (inode === undefined) this.#names.delete(path);
    else this.#names.set(path, inode);
    const changes = this.#pending.get(dirname(path)) ?? [];
    changes.push({ path, inode });
    this.#pending.set(dirname(path), changes);
  }

  #handle(path: string, inode: Inode, writable: boolean): LogFile {
    const change = (act: DiskAct, bytes: number): number | undefined => {
      if (!writable) throw systemError('EBADF', path);
      // An open file keeps its content when it is renamed.
      const [now] = [...this.#names].find(([, named]) => named === inode) ?? [path];
      return this.#act(act, now, bytes);
    };
    return {
      read: (target, position) => {
        this.#alive();
        const piece = inode.bytes.subarray(position, position + target.length);
        target.set(piece);
        return piece.length;
      },
      size: () => inode.bytes.length,
      write: async (bytes, position) => {
        const taken = Math.min(change('write', bytes.length) ?? bytes.length, bytes.length);
        const grown = Math.max(0, position + taken - inode.bytes.length);
        const room = this.capacity - this.#used();
        const fits = grown <= room ? taken : Math.max(0, taken - (grown - room));
        if (fits === 0 && bytes.length > 0 && taken > 0) throw systemError('ENOSPC', path);
        this.#write(inode, Buffer.from(bytes.subarray(0, fits)), position);
        return fits;
      },
      datasync: async () => {
        if (writable) change('datasync', 0);
        inode.durable = Buffer.from(inode.bytes);
        inode.dirty.clear();
      },
      truncate: async (length) => {
        change('truncate', length);
        const resized = Buffer.alloc(length);
        inode.bytes.copy(resized);
        inode.bytes = resized;
        inode.dirty.add(Math.floor(length / PAGE_BYTES));
      },
      close: () => {},
    };
  }

  #write(inode: Inode, bytes: Buffer, position: number): void {
    const length = Math.max(inode.bytes.length, position + bytes.length);
    const grown = Buffer.alloc(length);
    inode.bytes.copy(grown);
    bytes.copy(grown, position);
    inode.bytes = grown;
    inode.modifiedAt = this.now;
    for (let at = position; at < position + bytes.length; at += PAGE_BYTES) {
      inode.dirty.add(Math.floor(at / PAGE_BYTES));
    }
    inode.dirty.add(Math.floor((position + bytes.length - 1) / PAGE_BYTES));
  }

  #used(): number {
    return [...this.#names.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  #act(act: DiskAct, path: string, bytes: number): number | undefined {
    this.#alive();
    const count = this.acts;
    this.acts += 1;
    try {
      return this.fault(act, path, count, bytes);
    } catch (error) {
      if (error instanceof Killed) this.#dead = true;
      throw error;
    }
  }

  #alive(): void {
    if (this.#dead) throw new Killed('this process is dead');
  }
}

/** A failure as the system reports it. */
export function systemError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

function newInode(modifiedAt: number): Inode {
  return { bytes: Buffer.alloc(0), durable: Buffer.alloc(0), dirty: new Set(), modifiedAt };
}

/** What a power cut leaves of a file: each page written since the last sync or what was there before, zeros where nothing was. */
function remains({ bytes, durable, dirty }: Inode, survives: Survives): Buffer {
  const pages = [...dirty].filter(() => survives());
  // The length is written with the pages behind the old end, or later.
  const written = pages.map((page) => Math.min(bytes.length, (page + 1) * PAGE_BYTES));
  const least = bytes.length < durable.length && survives() ? bytes.length : durable.length;
  const length = Math.max(least, ...written);
  const left = Buffer.alloc(length);
  durable.copy(left, 0, 0, Math.min(length, durable.length));
  for (const page of pages) {
    const from = page * PAGE_BYTES;
    bytes.copy(left, from, from, Math.min(bytes.length, from + PAGE_BYTES));
  }
  return left;
}
