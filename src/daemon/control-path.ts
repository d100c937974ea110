import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, rmSync, type Stats, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { makeFolders } from '../disk/make-folders.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';

/** A socket's address holds 108 bytes on Linux and 104 elsewhere, with a zero at the end. */
const LONGEST_PATH_BYTES = 103;

const SOCKET = 'control.sock';
/** Stands in the archive where the socket cannot: a file with the path of the socket. */
const POINTER = 'control.path';
const LONGEST_POINTER_BYTES = 4_096;

/** Where a daemon listens for commands. */
export interface ControlPlace {
  readonly socket: string;
  /** Where the socket is said to be, when it is not in the archive's folder. */
  readonly pointer: string | null;
}

/** Makes the place of an archive's control socket ready. Whoever calls it holds the archive's lock: what is there is stale. */
export function prepareControlPlace(
  dataDir: string,
  env: Readonly<Record<string, string | undefined>>,
): ControlPlace {
  const inArchive = path.join(dataDir, SOCKET);
  const pointer = path.join(dataDir, POINTER);
  rmSync(inArchive, { force: true });
  rmSync(pointer, { force: true });
  if (fits(inArchive)) return { socket: inArchive, pointer: null };
  const name = `${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}.sock`;
  const socket = path.join(privateFolder(env), name);
  rmSync(socket, { force: true });
  writeFileSync(pointer, `${socket}\n`, { mode: 0o600 });
  return { socket, pointer };
}

/**
 * The control socket of an archive, or null when no daemon has left one. What comes with an archive that somebody else
 * packed is not followed: a socket is the user's own, and where it is not in the archive's folder, in a private folder.
 *
 * @throws daemon-socket-foreign
 */
export function findControlSocket(dataDir: string): string | null {
  const inArchive = path.join(dataDir, SOCKET);
  if (existsSync(inArchive)) {
    if (!isOwnSocket(inArchive, dataDir))
      throw daemonError('daemon-socket-foreign', { file: inArchive });
    return inArchive;
  }
  const pointer = path.join(dataDir, POINTER);
  if (!existsSync(pointer)) return null;
  const foreign = daemonError('daemon-socket-foreign', { file: pointer });
  const stat = lstatSync(pointer);
  if (!stat.isFile() || stat.size > LONGEST_POINTER_BYTES) throw foreign;
  const socket = readFileSync(pointer, 'utf8').trim();
  if (!existsSync(socket)) return null;
  const folder = lstatSync(path.dirname(socket));
  if (!path.isAbsolute(socket) || !isPrivateFolder(folder, dataDir)) throw foreign;
  if (!isOwnSocket(socket, dataDir)) throw foreign;
  return socket;
}

function isOwnSocket(socket: string, dataDir: string): boolean {
  const stat = lstatSync(socket);
  return stat.isSocket() && isOwn(stat, dataDir);
}

function isPrivateFolder(stat: Stats, dataDir: string | null): boolean {
  return stat.isDirectory() && isOwn(stat, dataDir) && (stat.mode & 0o077) === 0;
}

/** Root may maintain the archive of another user; it then asks that user's daemon. */
function isOwn({ uid }: Stats, dataDir: string | null): boolean {
  const own = userInfo().uid;
  // Where users have no numbers, -1.
  if (own < 0 || uid === own) return true;
  return own === 0 && dataDir !== null && uid === lstatSync(dataDir).uid;
}

function fits(socket: string): boolean {
  return Buffer.byteLength(socket) <= LONGEST_PATH_BYTES;
}

/** The user's own folder for sockets; in the system's folder for temporary files where there is none. */
function privateFolder({ XDG_RUNTIME_DIR }: Readonly<Record<string, string | undefined>>): string {
  if (XDG_RUNTIME_DIR !== undefined && existsSync(XDG_RUNTIME_DIR)) {
    const folder = path.join(XDG_RUNTIME_DIR, 'mailkeep');
    if (fits(path.join(folder, 'x'.repeat(21)))) return privateOnly(folder);
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
