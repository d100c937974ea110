import path from 'node:path';
import type { LogFile } from '../../../src/archive/file-system.ts';
import { SimulatedDisk } from '../../archive/simulated-disk.ts';
import type { FolderTree } from './folder-tree.ts';
import { bytesOf, type SystemCall, textOf } from './system-calls.ts';

/** What a call did to the disk, with the path that it is about; undefined for a call that did nothing to it. */
export type DiskChange = { readonly what: string; readonly path: string } | undefined;

/** What a descriptor stands for. */
interface OpenFile {
  readonly path: string;
  readonly file: LogFile;
  readonly appends: boolean;
  /** Where the next write without a position goes. */
  offset: number;
}

async function write(
  { path: file, file: target }: OpenFile,
  bytes: Buffer,
  taken: number,
  at: number,
): Promise<DiskChange> {
  await target.write(bytes.subarray(0, taken), at);
  return { what: 'write', path: file };
}

/** The bytes of several strings in one argument. */
function vectors(arg: string): Buffer {
  const pieces = [...arg.matchAll(/iov_base=("[^"]*"(?:\.\.\.)?)/g)];
  return Buffer.concat(pieces.map(([, piece = '']) => bytesOf(piece)));
}

/** `[0] => [4096]`, or NULL where the file's own offset counts. */
function positionIn(arg: string): number | undefined {
  return arg === 'NULL' ? undefined : Number(/\d+/.exec(arg)?.[0]);
}

/** Calls that may be about our files and do no harm. */
const HARMLESS: Readonly<Record<string, (text: string) => boolean>> = {
  mmap: (text) => !(text.includes('PROT_WRITE') && text.includes('MAP_SHARED')),
  clone: (text) => text.includes('CLONE_THREAD'),
  clone3: (text) => text.includes('CLONE_THREAD'),
  fcntl: (text) => !text.includes('F_DUPFD'),
  ioctl: (text) => !text.includes('FICLONE'),
  // libuv always has a queue for epoll_ctl; the one that files would go through is polled by the kernel.
  io_uring_setup: (text) => /\{flags=(?:0x10000|IORING_SETUP_NO_SQARRAY)[ ,]/.test(text),
};
/** Calls whatever they are about. */
const BEHIND_OUR_BACK = new Set(['clone', 'clone3', 'fork', 'vfork', 'io_uring_setup']);

/**
 * Refuses what would change files below `root` unseen: other processes, memory shared with a file, queues of calls,
 * further names of a file or a descriptor, and calls that no replay knows.
 *
 * @param isOpen whether a descriptor is one of a file or folder below `root`
 */
function refuseUnseen(
  { name, args }: SystemCall,
  root: string,
  isOpen: (fd: number) => boolean,
): void {
  const text = args.map((arg) => (arg.startsWith('"') ? textOf(arg) : arg)).join(', ');
  const ours = text.includes(root) || isOpen(Number(args[name === 'mmap' ? 4 : 0]));
  if ((ours || BEHIND_OUR_BACK.has(name)) && HARMLESS[name]?.(text) !== true) {
    throw new Error(`not followed: ${name}(${text.slice(0, 300)})`);
  }
}

type Open = OpenFile | { readonly folder: string };

/**
 * Carries out the calls of a recorded program on a simulated disk. Calls that could change files below `root` in a way
 * that is not followed are refused, so that nothing escapes it.
 *
 * SQLite's shared memory (`-shm`) is left out: a machine without power forgets it, and SQLite recreates it.
 */
export class Replay {
  readonly disk = new SimulatedDisk();
  readonly #open = new Map<number, Open>();
  /** Made, and their names not yet synced. */
  readonly #newFolders = new Set<string>();

  constructor(
    private readonly root: string,
    before: FolderTree,
    private readonly cwd: string,
  ) {
    this.disk.files.makeFolder(root);
    for (const folder of before.folders) this.disk.files.makeFolder(path.join(root, folder));
    for (const [name, bytes] of before.files) this.disk.put(path.join(root, name), bytes);
  }

  /** Folders that a power cut may take, with all that is in them: to the simulated disk folders are durable. */
  newFolders(): string[] {
    return [...this.#newFolders];
  }

  async apply({ name, args, result }: SystemCall): Promise<DiskChange> {
    const fd = Number(args[0]);
    const arg = (at: number): string => args[at] ?? '';
    if (result === -1) return undefined;
    switch (name) {
      case 'open':
        return this.#opened(result, this.#path('AT_FDCWD', arg(0)), arg(1));
      case 'openat':
        return this.#opened(result, this.#path(arg(0), arg(1)), arg(2));
      case 'close':
        this.#open.delete(fd);
        return undefined;
      case 'lseek':
        this.#file(fd, (open) => {
          open.offset = result;
        });
        return undefined;
      case 'write':
        return this.#file(fd, (open) => this.#write(open, bytesOf(arg(1)), result));
      case 'writev':
        return this.#file(fd, (open) => this.#write(open, vectors(arg(1)), result));
      case 'pwrite64':
        return this.#file(fd, (open) => write(open, bytesOf(arg(1)), result, Number(arg(3))));
      case 'pwritev':
        return this.#file(fd, (open) => write(open, vectors(arg(1)), result, Number(arg(3))));
      case 'ftruncate':
        return this.#file(fd, async (open) => {
          await open.file.truncate(Number(arg(1)));
          return { what: 'truncate', path: open.path };
        });
      case 'copy_file_range':
        return this.#copied(fd, arg(1), Number(arg(2)), arg(3), result);
      case 'sendfile':
        return this.#copied(Number(arg(1)), arg(2), fd, 'NULL', result);
      case 'fsync':
      case 'fdatasync':
        return this.#synced(fd);
      case 'rename':
        return this.#renamed(this.#path('AT_FDCWD', arg(0)), this.#path('AT_FDCWD', arg(1)));
      case 'renameat':
      case 'renameat2':
        return this.#renamed(this.#path(arg(0), arg(1)), this.#path(arg(2), arg(3)));
      case 'unlink':
        return this.#removed(this.#path('AT_FDCWD', arg(0)), false);
      case 'unlinkat':
        return this.#removed(this.#path(arg(0), arg(1)), arg(2).includes('AT_REMOVEDIR'));
      case 'rmdir':
        return this.#removed(this.#path('AT_FDCWD', arg(0)), true);
      case 'mkdir':
        return this.#madeFolder(this.#path('AT_FDCWD', arg(0)));
      case 'mkdirat':
        return this.#madeFolder(this.#path(arg(0), arg(1)));
      default:
        refuseUnseen({ name, args, result }, this.root, (fd) => this.#open.has(fd));
        return undefined;
    }
  }

  /** Undefined for a path that is none of ours. @throws Error for one below an open folder, which is not followed */
  #path(at: string, arg: string): string | undefined {
    const text = textOf(arg);
    if (at !== 'AT_FDCWD' && !path.isAbsolute(text)) throw new Error(`below a folder: ${text}`);
    const full = path.resolve(this.cwd, text);
    const ours = full === this.root || full.startsWith(`${this.root}/`);
    return ours && !full.endsWith('-shm') ? full : undefined;
  }

  async #opened(fd: number, file: string | undefined, flags: string): Promise<DiskChange> {
    if (file === undefined) {
      this.#open.delete(fd);
      return undefined;
    }
    const { disk } = this;
    if (disk.folders().includes(file)) {
      this.#open.set(fd, { folder: file });
      return undefined;
    }
    const isNew = !disk.paths().includes(file);
    const opened = disk.files.open(file, isNew ? 'create' : 'write');
    const appends = flags.includes('O_APPEND');
    this.#open.set(fd, { path: file, file: opened, appends, offset: 0 });
    if (isNew) return { what: 'create', path: file };
    if (!flags.includes('O_TRUNC') || opened.size() === 0) return undefined;
    await opened.truncate(0);
    return { what: 'truncate', path: file };
  }

  #file<T>(fd: number, act: (open: OpenFile) => T): T | undefined {
    const open = this.#open.get(fd);
    return open === undefined || 'folder' in open ? undefined : act(open);
  }

  async #write(open: OpenFile, bytes: Buffer, taken: number): Promise<DiskChange> {
    const at = open.appends ? open.file.size() : open.offset;
    open.offset = at + taken;
    return write(open, bytes, taken, at);
  }

  #copied(
    from: number,
    fromAt: string,
    to: number,
    toAt: string,
    taken: number,
  ): Promise<DiskChange> | undefined {
    return this.#file(to, async (target) => {
      const source = this.#open.get(from);
      if (source === undefined || 'folder' in source) throw new Error(`copied into ${target.path}`);
      const bytes = Buffer.alloc(taken);
      source.file.read(bytes, positionIn(fromAt) ?? source.offset);
      if (positionIn(fromAt) === undefined) source.offset += taken;
      const at = positionIn(toAt);
      return at === undefined ? this.#write(target, bytes, taken) : write(target, bytes, taken, at);
    });
  }

  async #synced(fd: number): Promise<DiskChange> {
    const open = this.#open.get(fd);
    if (open === undefined) return undefined;
    if ('folder' in open) {
      await this.disk.files.syncFolder(open.folder);
      for (const folder of this.#newFolders) {
        if (path.dirname(folder) === open.folder) this.#newFolders.delete(folder);
      }
      return { what: 'syncFolder', path: open.folder };
    }
    await open.file.datasync();
    return { what: 'sync', path: open.path };
  }

  async #renamed(from: string | undefined, to: string | undefined): Promise<DiskChange> {
    if (from === undefined && to === undefined) return undefined;
    if (from === undefined || to === undefined) throw new Error(`moved: ${from} to ${to}`);
    await this.disk.files.rename(from, to);
    return { what: 'rename', path: to };
  }

  async #removed(name: string | undefined, folder: boolean): Promise<DiskChange> {
    if (name === undefined) return undefined;
    if (folder) {
      this.disk.removeFolder(name);
      this.#newFolders.delete(name);
    } else await this.disk.files.remove(name);
    return { what: 'remove', path: name };
  }

  #madeFolder(folder: string | undefined): DiskChange {
    if (folder === undefined) return undefined;
    this.disk.files.makeFolder(folder);
    this.#newFolders.add(folder);
    return { what: 'makeFolder', path: folder };
  }
}
