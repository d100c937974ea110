import {
  closeSync,
  fdatasync,
  fstatSync,
  ftruncate,
  openSync,
  readdirSync,
  readSync,
  statSync,
  write,
} from 'node:fs';
import { open as openHandle, rename, unlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { makeFolders } from '../../disk/make-folders.ts';
import { openRegularFile } from '../../disk/regular-file.ts';
import { FILE_MODE, FOLDER_MODE } from '../format/layout.ts';
import type { FileLayer, LogFile } from './file-layer.ts';

const fdatasyncAsync = promisify(fdatasync);
const ftruncateAsync = promisify(ftruncate);

/** The disk itself. */
export const realFiles: FileLayer = {
  // A foreign archive or export may have a pipe instead of a file: opening it must not wait.
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
    // Bare descriptors and callbacks: a FileHandle costs several promises for each call.
    write: (bytes, position) =>
      new Promise((resolve, reject) => {
        write(fd, bytes, 0, bytes.length, position, (error, taken) =>
          error === null ? resolve(taken) : reject(error),
        );
      }),
    datasync: () => fdatasyncAsync(fd),
    truncate: (length) => ftruncateAsync(fd, length),
    close: () => closeSync(fd),
  };
}

/** Some file systems cannot sync a folder (network shares, and Windows everywhere): there the rename itself has to do. */
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
