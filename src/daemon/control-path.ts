import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { fitsSocket, isOwnSocket, isPrivateFolder, privateFolder } from '../core/files.ts';
import { daemonError } from './errors.ts';

const SOCKET = 'control.sock';
/** Stands in the archive where the socket cannot: a file with the path of the socket. */
const POINTER = 'control.path';
const LONGEST_POINTER_BYTES = 4_096;

export interface ControlPlace {
  readonly socket: string;
  /** Where the socket is said to be, when it is not in the archive's folder. */
  readonly pointer: string | null;
}

/**
 * Makes the place of an archive's control socket ready. The caller holds the archive's lock, so an existing socket is
 * stale.
 *
 * @throws daemon-socket-failed, daemon-socket-folder
 */
export function prepareControlPlace(
  dataDir: string,
  env: Readonly<Record<string, string | undefined>>,
): ControlPlace {
  const inArchive = path.join(dataDir, SOCKET);
  const pointer = path.join(dataDir, POINTER);
  try {
    rmSync(inArchive, { force: true });
    rmSync(pointer, { force: true });
    if (fitsSocket(inArchive)) return { socket: inArchive, pointer: null };
    const name = `${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}.sock`;
    const socket = path.join(privateFolder(env, name.length), name);
    rmSync(socket, { force: true });
    writeFileSync(pointer, `${socket}\n`, { mode: 0o600 });
    return { socket, pointer };
  } catch (error) {
    throw socketFailed(inArchive, error);
  }
}

/** Returns an error of the system as one about a control socket; any other as it is. */
export function socketFailed(file: string, error: unknown): unknown {
  const reason = errnoName(error);
  const isOurs = error instanceof MailkeepError || reason === 'unknown';
  return isOurs ? error : daemonError('daemon-socket-failed', { file, reason });
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
