import { createHash } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import { utimes } from 'node:fs/promises';
import path from 'node:path';
import {
  createOrReplace,
  type FileLayer,
  type LogFile,
  readFully,
  realFiles,
  writeAll,
} from '../archive/file-system.ts';
import { isRunning } from '../archive/lock.ts';
import { errnoOf } from '../core/errors.ts';
import { exportError } from './errors.ts';
import type { ManifestFile } from './manifest-shapes.ts';

export interface ExportFiles extends FileLayer {
  /** Follows links. `other` is a pipe, socket or device, which may never end when read. */
  kindOf(path: string): 'file' | 'folder' | 'other' | undefined;
  isLink(path: string): boolean;
  /** @param time milliseconds since the epoch */
  setModified(path: string, time: number): Promise<void>;
}

export const realExportFiles: ExportFiles = {
  ...realFiles,
  kindOf(file) {
    const stats = statSync(file, { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    if (stats.isDirectory()) return 'folder';
    return stats.isFile() ? 'file' : 'other';
  },
  isLink: (file) => lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() ?? false,
  async setModified(file, time) {
    await utimes(file, time / 1000, time / 1000);
  },
};

/** Lists the folders to sync after creating this one, so that it survives a power failure. */
function missingParents(files: ExportFiles, folder: string): string[] {
  const parents: string[] = [];
  for (let at = folder; files.kindOf(at) === undefined; at = path.dirname(at)) {
    if (path.dirname(at) === at) break;
    parents.push(path.dirname(at));
  }
  return parents;
}

const TEMPORARY = /^\.mailkeep-(\d+)-\d+\.tmp$/;

/** Returns the process that writes an unfinished file, from the file's name; undefined for other files. */
export function temporaryOwner(name: string): number | undefined {
  const pid = TEMPORARY.exec(name)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

export async function writing<T>(file: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw toFailure(file, error);
  }
}

function toFailure(file: string, error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  return errno === 'ENOSPC' || errno === 'EDQUOT'
    ? exportError('export-disk-full', { file }, error)
    : exportError('export-write-failed', { file, errno }, error);
}

const BUFFERED_BYTES = 1024 * 1024;

/** A file written from start to end under a temporary name. */
export class NewFile {
  size = 0;
  readonly #hash = createHash('sha256');
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #written = 0;
  #closed = false;

  private constructor(
    private readonly files: ExportFiles,
    private readonly temporary: string,
    private readonly file: LogFile,
  ) {}

  static async create(files: ExportFiles, temporary: string): Promise<NewFile> {
    return new NewFile(files, temporary, await createOrReplace(files, temporary));
  }

  /** The SHA-256 of the bytes written so far, in hexadecimal. */
  get sha256(): string {
    return this.#hash.copy().digest('hex');
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.size += bytes.length;
    if (this.#pendingBytes >= BUFFERED_BYTES) await this.#flush();
  }

  /**
   * Makes the bytes durable, then renames the file, replacing any existing one. The new name becomes durable with the
   * next folder sync.
   */
  async finish(final: string, modified?: number): Promise<void> {
    await this.#flush();
    if (modified !== undefined) await this.files.setModified(this.temporary, modified);
    await this.file.datasync();
    this.#close();
    await this.files.rename(this.temporary, final);
  }

  async discard(): Promise<void> {
    this.#close();
    await this.files.remove(this.temporary);
  }

  #close(): void {
    if (!this.#closed) this.file.close();
    this.#closed = true;
  }

  async #flush(): Promise<void> {
    const [first] = this.#pending;
    if (first === undefined) return;
    const bytes = this.#pending.length === 1 ? first : Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    await writeAll(this.file, bytes, this.#written);
    this.#written += bytes.length;
  }
}

/**
 * Writes to a folder tree. Creates each folder once, tracks which folders need a sync, and translates disk errors.
 * Paths are relative to the root unless stated otherwise.
 */
export class ExportFolder {
  readonly #touched = new Set<string>();
  readonly #made = new Set<string>();
  readonly #prepared = new Map<string, Promise<void>>();
  #number = 0;

  /** @param prefix start of the names of unfinished files; tells exports in the same folder apart */
  constructor(
    readonly files: ExportFiles,
    readonly root: string,
    private readonly prefix = '',
  ) {}

  absolute(relative: string): string {
    return relative === '' ? this.root : path.join(this.root, ...relative.split('/'));
  }

  /** Returns a file's SHA-256 in hexadecimal, or undefined if there is no such file. */
  async hash(relative: string): Promise<string | undefined> {
    const file = this.absolute(relative);
    return this.files.kindOf(file) === 'file' ? sha256Of(filePieces(this.files, file)) : undefined;
  }

  /**
   * Creates a folder and its parents. The root can be a link, but folders under it cannot.
   *
   * @throws export-target-linked, export-disk-full, export-write-failed
   */
  makeFolder(relative: string): void {
    if (this.#made.has(relative)) return;
    this.#refuseLinks(relative);
    const folder = this.absolute(relative);
    const parents = missingParents(this.files, folder);
    if (parents.length > 0) {
      try {
        this.files.makeFolder(folder);
      } catch (error) {
        throw toFailure(folder, error);
      }
      for (const parent of parents) this.#touched.add(parent);
    }
    this.#made.add(relative);
  }

  /** Creates a folder, and removes unfinished files that an earlier export left there. @throws like `makeFolder` */
  prepare(relative: string): Promise<void> {
    const prepare = async () => {
      this.makeFolder(relative);
      await this.#sweep(relative);
    };
    const preparing = this.#prepared.get(relative) ?? writing(this.absolute(relative), prepare);
    this.#prepared.set(relative, preparing);
    return preparing;
  }

  #refuseLinks(relative: string): void {
    const parts = relative === '' ? [] : relative.split('/');
    for (const level of parts.keys()) {
      const folder = this.absolute(parts.slice(0, level + 1).join('/'));
      if (this.files.isLink(folder)) throw exportError('export-target-linked', { folder });
    }
  }

  /**
   * Writes a file and returns its hash and size. Leaves no file behind on error.
   *
   * @param temporaryIn folder for the unfinished file; default: the file's own
   * @throws export-disk-full, export-write-failed; errors from `fill`
   */
  async put(
    relative: string,
    fill: (file: NewFile) => Promise<void>,
    options: { readonly modified?: number; readonly temporaryIn?: string } = {},
  ): Promise<ManifestFile> {
    const folder = parentOf(relative);
    const final = this.absolute(relative);
    return await writing(final, async () => {
      this.makeFolder(folder);
      const file = await this.begin(relative, options.temporaryIn);
      try {
        await fill(file);
        await file.finish(final, options.modified);
        return { path: relative, sha256: file.sha256, size: file.size };
      } catch (error) {
        // If this fails, the next run removes the file.
        await file.discard().catch(() => {});
        throw error;
      }
    });
  }

  async rename(from: string, to: string): Promise<void> {
    for (const relative of [from, to]) this.#refuseLinks(parentOf(relative));
    await writing(this.absolute(to), async () => {
      await this.files.rename(this.absolute(from), this.absolute(to));
      for (const relative of [from, to]) {
        this.#touched.add(path.dirname(this.absolute(relative)));
      }
    });
  }

  async remove(relative: string): Promise<void> {
    this.#refuseLinks(parentOf(relative));
    await writing(this.absolute(relative), async () => {
      await this.files.remove(this.absolute(relative));
      this.#touched.add(path.dirname(this.absolute(relative)));
    });
  }

  async begin(relative: string, temporaryIn = parentOf(relative)): Promise<NewFile> {
    this.#refuseLinks(parentOf(relative));
    const folder = this.absolute(temporaryIn);
    this.#number += 1;
    const name = `${this.prefix}.mailkeep-${process.pid}-${this.#number}.tmp`;
    const temporary = path.join(folder, name);
    // Sync the new name first, so that a crash between the two syncs cannot lose both names.
    for (const one of [parentOf(relative), temporaryIn]) this.#touched.add(this.absolute(one));
    return await NewFile.create(this.files, temporary);
  }

  async #sweep(relative: string): Promise<void> {
    const folder = this.absolute(relative);
    for (const name of this.files.list(folder)) {
      const isOwn = name.startsWith(this.prefix);
      const pid = isOwn ? temporaryOwner(name.slice(this.prefix.length)) : undefined;
      if (pid === undefined || (pid !== process.pid && isRunning(pid))) continue;
      await writing(path.join(folder, name), () => this.files.remove(path.join(folder, name)));
    }
  }

  /** Makes all renames since the last call durable. */
  async sync(): Promise<void> {
    for (const folder of this.#touched) await writing(folder, () => this.files.syncFolder(folder));
    this.#touched.clear();
  }
}

export function parentOf(relative: string): string {
  return relative.split('/').slice(0, -1).join('/');
}

const CHUNK_BYTES = 256 * 1024;

/** Yields the bytes from `start` up to `end`. Each piece is valid only until the next one is requested. */
export function* filePieces(
  files: ExportFiles,
  path: string,
  range: { readonly start?: number; readonly end?: number } = {},
): Generator<Buffer, void, undefined> {
  const file = files.open(path, 'read');
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const end = range.end ?? Number.POSITIVE_INFINITY;
    for (let at = range.start ?? 0; at < end; ) {
      const count = readFully(file, chunk.subarray(0, Math.min(CHUNK_BYTES, end - at)), at);
      if (count === 0) return;
      yield chunk.subarray(0, count);
      at += count;
    }
  } finally {
    file.close();
  }
}

/** Returns the SHA-256 of all bytes, in hexadecimal. */
export async function sha256Of(
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<string> {
  const digest = createHash('sha256');
  for await (const piece of pieces) digest.update(piece);
  return digest.digest('hex');
}
