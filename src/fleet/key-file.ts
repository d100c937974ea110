import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../core/errors.ts';
import { makeFoldersDurably, readRegularFile } from '../core/files.ts';
import { fleetKeyError } from './errors.ts';
import { FleetKeys } from './secrets.ts';

/** Bytes. Thousands of keys have less. */
const MOST_BYTES = 1024 * 1024;
const MODE = 0o600;
const FOLDER_MODE = 0o700;

/**
 * Reads the keys of a fleet from a file.
 *
 * @throws fleet-key-file-unreadable, fleet-key-invalid
 */
export function readFleetKeys(file: string): FleetKeys {
  let text: string;
  try {
    text = readRegularFile(file, MOST_BYTES).toString('utf8');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetKeyError('fleet-key-file-unreadable', { file, reason }, error);
  }
  return FleetKeys.parse(text, file);
}

/**
 * Makes a file with one new key, which only its owner can read. A file that exists is never replaced.
 *
 * @throws fleet-key-file-unwritable, with the reason EEXIST if there is a file
 */
export function makeKeyFile(file: string): FleetKeys {
  // Each file names its key differently: two that were made by mistake are told apart.
  const text = `${keyLine(`key-${randomBytes(4).toString('hex')}`)}\n`;
  const folder = path.dirname(file);
  const temporary = `${file}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    makeFoldersDurably(folder, FOLDER_MODE);
    writeFileSync(temporary, text, { mode: MODE, flag: 'wx', flush: true });
    try {
      // It has all of its text once it has its name, and the name is taken only if it is free.
      linkSync(temporary, file);
    } finally {
      rmSync(temporary, { force: true });
    }
    syncFolder(folder);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetKeyError('fleet-key-file-unwritable', { file, reason }, error);
  }
  return FleetKeys.parse(text, file);
}

/**
 * Makes a new key the first one of a file, which encrypts from then on. The file is replaced as a whole, and keeps owner and
 * mode. Does nothing if the key of that name is the first one already.
 *
 * @returns whether a key was added
 * @throws fleet-key-exists, fleet-key-file-busy, fleet-key-file-unreadable, fleet-key-file-unwritable, fleet-key-invalid
 */
export function addKey(file: string, name: string): boolean {
  try {
    // What a link leads to is replaced, never the link.
    const target = existsSync(file) ? realpathSync(file) : file;
    return replaced(target, name);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetKeyError('fleet-key-file-unwritable', { file, reason }, error);
  }
}

function replaced(file: string, name: string): boolean {
  const temporary = `${file}.new`;
  const opened = exclusively(file, temporary);
  let isDone = false;
  try {
    // From here on nobody else changes it: a key that another process adds would be lost.
    const keys = readFleetKeys(file);
    if (keys.current === name) return false;
    if (keys.key(name) !== undefined) throw fleetKeyError('fleet-key-exists', { file, name });
    const { mode, uid, gid } = statSync(file);
    const made = fstatSync(opened);
    if (made.uid !== uid || made.gid !== gid) fchownSync(opened, uid, gid);
    fchmodSync(opened, mode & 0o777);
    const text = readRegularFile(file, MOST_BYTES).toString('utf8');
    writeFileSync(opened, `${keyLine(name)}\n${text}`, { flush: true });
    renameSync(temporary, file);
    isDone = true;
    syncFolder(path.dirname(file));
    return true;
  } finally {
    closeSync(opened);
    if (!isDone) rmSync(temporary, { force: true });
  }
}

function exclusively(file: string, temporary: string): number {
  try {
    return openSync(temporary, 'wx', MODE);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw fleetKeyError('fleet-key-file-busy', { file, temporary });
  }
}

function keyLine(name: string): string {
  return `${name} ${randomBytes(32).toString('hex')}`;
}

function syncFolder(folder: string): void {
  // Windows cannot open folders, and needs no such thing.
  if (process.platform === 'win32') return;
  const opened = openSync(folder, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
