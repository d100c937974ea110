import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFoldersDurably } from '../disk/make-folders.ts';
import { readRegularFile } from '../disk/regular-file.ts';
import { fleetKeyError } from '../errors/fleet-keys.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
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
 * @param random returns that many random bytes
 * @throws fleet-key-file-unwritable, with the reason EEXIST if there is a file
 */
export function makeKeyFile(
  file: string,
  random: (bytes: number) => Buffer = randomBytes,
): FleetKeys {
  // Each file names its key differently: two that were made by mistake are told apart.
  const text = `${keyLine(`key-${random(4).toString('hex')}`, random)}\n`;
  const folder = path.dirname(file);
  const temporary = `${file}.${random(8).toString('hex')}.tmp`;
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

function keyLine(name: string, random: (bytes: number) => Buffer): string {
  return `${name} ${random(32).toString('hex')}`;
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
