import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncate,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  rmdirSync,
  statSync,
  unlinkSync,
  write,
  writeSync,
} from 'node:fs';
import { open as openHandle, rename, statfs, unlink } from 'node:fs/promises';
import path, { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { usageError } from '../core/error-tables.ts';
import { errnoName, errnoOf, type MailkeepError, NOT_REGULAR } from '../core/errors.ts';
import { makeFolders, openRegularFile } from '../core/files.ts';
import { archiveError } from './errors.ts';
import { FILE_MODE, FOLDER_MODE, formatPath, logFolder, temporaryPath } from './format.ts';

/** Returns the free space in bytes on an existing directory's disk, excluding any reserved for root. */
export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}

/**
 * The archive's only access to the disk, which lets tests simulate power cuts and full disks. Failures are Node's
 * system errors with their `code` (`ENOENT`, `ENOSPC`, …). Reading is synchronous, because reading a record from the
 * page cache takes microseconds, a tenth of the thread pool's overhead. Writing and syncing wait for the disk, so they
 * are asynchronous.
 */
export interface FileLayer {
  /** `read` and `write` require an existing file. `create` uses mode 0600, and throws `EEXIST` if the file exists. */
  open(path: string, access: 'read' | 'write' | 'create'): LogFile;
  list(folder: string): string[];
  /** Creates a directory (0700) and any missing parents. */
  makeFolder(folder: string): void;
  /** Replaces any existing file at `to`. Durable only after `syncFolder`. */
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Makes creations, renames and removals in a directory durable. */
  syncFolder(folder: string): Promise<void>;
  /** Milliseconds since the epoch. */
  modifiedAt(path: string): number;
}

export interface ReadFile {
  /** May read fewer bytes than requested. Returns 0 only at the end of the file or for an empty target. */
  read(target: Uint8Array, position: number): number;
  size(): number;
}

export interface LogFile extends ReadFile {
  /** May write only part of `bytes`. Returns the number of bytes written. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  /** Makes the written bytes and the file's length durable. */
  datasync(): Promise<void>;
  truncate(length: number): Promise<void>;
  close(): void;
}

/** Opens a file. Returns undefined for a directory, pipe or device, none of which can be a segment. */
export function openRegular(files: FileLayer, path: string): LogFile | undefined {
  try {
    return files.open(path, 'read');
  } catch (error) {
    const errno = errnoName(error);
    if (errno === NOT_REGULAR || errno === 'EISDIR') return undefined;
    throw error;
  }
}

/** Creates a file, replacing any left behind by unfinished work. */
export async function createOrReplace(files: FileLayer, path: string): Promise<LogFile> {
  try {
    return files.open(path, 'create');
  } catch (error) {
    if (errnoName(error) !== 'EEXIST') throw error;
    await files.remove(path);
    return files.open(path, 'create');
  }
}

/** Writes all the bytes. Throws `EIO` after two consecutive writes of 0 bytes. */
export async function writeAll(file: LogFile, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  let idle = 0;
  while (done < bytes.length) {
    const count = await file.write(done === 0 ? bytes : bytes.subarray(done), position + done);
    done += count;
    idle = count === 0 ? idle + 1 : 0;
    if (idle > 1) throw Object.assign(new Error('the disk takes no bytes'), { code: 'EIO' });
  }
}

/** Reads until the target is full or the file ends, and returns the number of bytes read. */
export function readFully(file: ReadFile, target: Uint8Array, position: number): number {
  let done = 0;
  while (done < target.length) {
    const got = file.read(done === 0 ? target : target.subarray(done), position + done);
    if (got === 0) break;
    done += got;
  }
  return done;
}

export function readSmallFile(files: FileLayer, path: string): Buffer {
  const file = files.open(path, 'read');
  try {
    const bytes = Buffer.alloc(file.size());
    return bytes.subarray(0, readFully(file, bytes, 0));
  } finally {
    file.close();
  }
}

/** Replaces a small file (0600) durably and atomically. */
export async function replaceFile(
  files: FileLayer,
  path: string,
  bytes: Uint8Array,
): Promise<void> {
  const temporary = temporaryPath(path);
  try {
    const file = await createOrReplace(files, temporary);
    try {
      await writeAll(file, bytes, 0);
      await file.datasync();
    } finally {
      file.close();
    }
    await files.rename(temporary, path);
  } catch (error) {
    // If the file cannot be removed now, the next attempt replaces it.
    await files.remove(temporary).catch(() => undefined);
    throw error;
  }
  await files.syncFolder(dirname(path));
}

/** Returns a copy of a file layer with some methods replaced. */
export function overlayFiles(files: FileLayer, changes: Partial<FileLayer>): FileLayer {
  return {
    open: (path, access) => files.open(path, access),
    list: (folder) => files.list(folder),
    makeFolder: (folder) => files.makeFolder(folder),
    rename: (from, to) => files.rename(from, to),
    remove: (path) => files.remove(path),
    syncFolder: (folder) => files.syncFolder(folder),
    modifiedAt: (path) => files.modifiedAt(path),
    ...changes,
  };
}

/** Returns a file layer whose listings omit the given paths, so that readers treat those segments as missing. */
export function hideFiles(files: FileLayer, hidden: ReadonlySet<string>): FileLayer {
  return overlayFiles(files, {
    list: (folder) => files.list(folder).filter((name) => !hidden.has(join(folder, name))),
  });
}

interface FileSystem {
  /** The kernel's name for the file system, such as `ext4`, `nfs4` or `fuse.sshfs`. */
  readonly type: string;
  readonly mountPoint: string;
  /** True for a network file system, where locks and syncing are often unreliable. */
  readonly network: boolean;
}

const NETWORK = new Set(
  '9p afs beegfs ceph cifs coda gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs smb3 smbfs'.split(
    ' ',
  ),
);
const NETWORK_FUSE =
  /^fuse\.(.*ssh|.*s3|davfs|webdav|glusterfs|ceph|rclone|gvfs|smb|nfs|juicefs|gcsfuse|blobfuse)/;

/** Returns the file system of a directory, which need not exist yet. Returns null except on Linux. */
export function fileSystemOf(folder: string): FileSystem | null {
  const table = '/proc/self/mountinfo';
  if (!existsSync(table)) return null;
  return findFileSystem(readFileSync(table, 'utf8'), realpathSync(nearestExisting(folder)));
}

/** Finds the mount of an absolute path in /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export function findFileSystem(mountinfo: string, folder: string): FileSystem | null {
  let best: FileSystem | null = null;
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const mountPoint = decodeEscapes(before.split(' ')[4] ?? '');
    const type = after.split(' ')[0] ?? '';
    // If several mounts share a mount point, only the last one is visible.
    if (mountPoint === '' || !contains(mountPoint, folder)) continue;
    if (best !== null && mountPoint.length < best.mountPoint.length) continue;
    best = { type, mountPoint, network: NETWORK.has(type) || NETWORK_FUSE.test(type) };
  }
  return best;
}

function contains(mountPoint: string, folder: string): boolean {
  return mountPoint === '/' || folder === mountPoint || folder.startsWith(`${mountPoint}/`);
}

/** Decodes the octal escapes that stand for spaces and backslashes. */
function decodeEscapes(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

function nearestExisting(folder: string): string {
  let at = path.resolve(folder);
  while (!existsSync(at)) at = path.dirname(at);
  return at;
}

const fdatasyncAsync = promisify(fdatasync);
const ftruncateAsync = promisify(ftruncate);

export const realFiles: FileLayer = {
  // Opening must not block if a foreign archive or export has a pipe in place of a file.
  open: (path, access) =>
    realFile(
      access === 'create' ? openSync(path, 'wx+', FILE_MODE) : openRegularFile(path, access),
    ),
  list: (folder) => readdirSync(folder),
  makeFolder: (folder) => makeFolders(folder, FOLDER_MODE),
  rename: (from, to) => rename(from, to),
  remove: (path) => unlink(path),
  syncFolder,
  modifiedAt: (path) => statSync(path).mtimeMs,
};

function realFile(fd: number): LogFile {
  return {
    read: (target, position) => readSync(fd, target, 0, target.length, position),
    size: () => fstatSync(fd).size,
    // A FileHandle would cost several promises per call.
    write: (bytes, position) =>
      new Promise((resolve, reject) => {
        write(fd, bytes, 0, bytes.length, position, (error, count) =>
          error === null ? resolve(count) : reject(error),
        );
      }),
    datasync: () => fdatasyncAsync(fd),
    truncate: (length) => ftruncateAsync(fd, length),
    close: () => closeSync(fd),
  };
}

/** Errors from network shares and Windows, which cannot sync a directory. There, the rename has to be enough. */
const FOLDER_SYNC_UNSUPPORTED = new Set(['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM']);

async function syncFolder(folder: string): Promise<void> {
  let handle: Awaited<ReturnType<typeof openHandle>> | undefined;
  try {
    handle = await openHandle(folder, 'r');
    await handle.sync();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const tolerated = process.platform === 'win32' ? code !== 'ENOENT' : code !== 'EPERM';
    if (!(tolerated && FOLDER_SYNC_UNSUPPORTED.has(code))) throw error;
  } finally {
    await handle?.close();
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

export function allowsNetworkFileSystem(env: Environment): boolean {
  return env.MAILKEEP_NETWORK_FILE_SYSTEM === 'allow';
}

/**
 * Refuses to write to an archive on a network file system.
 *
 * @throws network-file-system, unless MAILKEEP_NETWORK_FILE_SYSTEM is `allow`
 */
export function refuseNetworkFileSystem(dataDir: string, env: Environment): void {
  if (allowsNetworkFileSystem(env)) return;
  const found = fileSystemOf(dataDir);
  if (found?.network !== true) return;
  const { type, mountPoint } = found;
  throw archiveError('network-file-system', { dir: dataDir, type, mountPoint });
}

const ABSENT = new Set(['ENOENT', 'ENOTDIR']);

/**
 * Reports whether a directory holds an archive.
 *
 * @param damaged whether to accept a log without its FORMAT
 * @throws archive-unreadable if the system denies access
 */
export function holdsArchive(dataDir: string, damaged = false): boolean {
  const exists = (file: string): boolean => {
    try {
      statSync(file);
      return true;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      if (ABSENT.has(errno)) return false;
      throw archiveError('archive-unreadable', { dir: dataDir, errno }, error);
    }
  };
  return exists(formatPath(dataDir)) || (damaged && exists(logFolder(dataDir)));
}

/** @throws usage-no-archive; archive-unreadable */
export function requireArchive(dataDir: string, damaged = false): void {
  if (!holdsArchive(dataDir, damaged)) throw usageError('usage-no-archive', { dataDir });
}

/**
 * Tests whether a sync could write, by creating and removing a file. If the folder does not exist, tests in a temporary
 * folder in its nearest existing parent.
 */
export function testWriting(dataDir: string): {
  readonly folder: string;
  readonly error: MailkeepError | undefined;
} {
  let folder = dataDir;
  while (!existsSync(folder) && isMissing(folder)) folder = path.dirname(folder);
  const error = systemRefusal(
    () => {
      const trial = path.join(folder, `.doctor-${process.pid}`);
      if (folder === dataDir) writeOnce(trial);
      else writeBelow(trial);
    },
    (errno, cause) => archiveError('archive-unwritable', { file: folder, errno }, cause),
  );
  return { folder, error };
}

/** Some file systems, such as /proc, look writable but refuse folders. Control groups allow folders but not files. */
function writeBelow(folder: string): void {
  mkdirSync(folder, { mode: 0o700 });
  try {
    writeOnce(path.join(folder, 'trial'));
  } finally {
    rmdirSync(folder);
  }
}

function writeOnce(file: string): void {
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    writeSync(descriptor, 'mailkeep doctor\n');
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
    unlinkSync(file);
  }
}

/** Returns false if part of the path is inaccessible. Writing there then fails with the actual error. */
function isMissing(folder: string): boolean {
  try {
    accessSync(folder, constants.F_OK);
    return false;
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

/** Runs an action. If the system refuses it, returns the error. */
export function systemRefusal(
  act: () => void,
  refused: (errno: string, cause: unknown) => MailkeepError,
): MailkeepError | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return refused(errno, error);
  }
}
