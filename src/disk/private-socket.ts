import { existsSync, lstatSync, type Stats } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';
import { makeFolders } from './make-folders.ts';

/** A socket's address holds 108 bytes on Linux and 104 elsewhere, with a zero at the end. */
const LONGEST_PATH_BYTES = 103;

/** Returns whether a path is a socket of this user's, or, for root, of the owner of the archive. */
export function isOwnSocket(socket: string, dataDir: string): boolean {
  const stat = lstatSync(socket);
  return stat.isSocket() && isOwn(stat, dataDir);
}

/** Returns whether nobody but this user (for root, the owner of the archive) can reach what is in a folder. */
export function isPrivateFolder(stat: Stats, dataDir: string | null): boolean {
  return stat.isDirectory() && isOwn(stat, dataDir) && (stat.mode & 0o077) === 0;
}

/** Root may maintain the archive of another user; it then asks that user's daemon. */
function isOwn({ uid }: Stats, dataDir: string | null): boolean {
  const own = userInfo().uid;
  // Where users have no numbers, -1.
  if (own < 0 || uid === own) return true;
  return own === 0 && dataDir !== null && uid === lstatSync(dataDir).uid;
}

/** Returns whether a path is short enough for the address of a socket. */
export function fitsSocket(socket: string): boolean {
  return Buffer.byteLength(socket) <= LONGEST_PATH_BYTES;
}

/**
 * Returns the user's own folder for sockets, made if it was not there; in the system's folder for temporary files where
 * the user has none.
 *
 * @param nameLength bytes of the name of a socket, which must fit behind the folder
 * @throws daemon-socket-folder
 */
export function privateFolder(
  { XDG_RUNTIME_DIR }: Readonly<Record<string, string | undefined>>,
  nameLength: number,
): string {
  if (XDG_RUNTIME_DIR !== undefined && existsSync(XDG_RUNTIME_DIR)) {
    const folder = path.join(XDG_RUNTIME_DIR, 'mailkeep');
    if (fitsSocket(path.join(folder, 'x'.repeat(nameLength)))) return privateOnly(folder);
  }
  return privateOnly(path.join(tmpdir(), `mailkeep-${userInfo().uid}`));
}

function privateOnly(folder: string): string {
  try {
    makeFolders(folder, 0o700);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw daemonError('daemon-socket-folder', { folder });
  }
  // Anybody may have made it: a socket in somebody else's folder would be theirs to replace.
  if (!isPrivateFolder(lstatSync(folder), null)) {
    throw daemonError('daemon-socket-folder', { folder });
  }
  return folder;
}
