import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { isOwnSocket, isPrivateFolder, isValidSocketPath, privateFolder } from '../core/files.ts';
import { daemonError } from './errors.ts';

const SOCKET = 'control.sock';
/** Contains the socket's path if the socket cannot be placed in the archive's folder. */
const POINTER = 'control.path';
const MAX_POINTER_BYTES = 4_096;

export interface ControlSocketPath {
  readonly socket: string;
  readonly pointer: string | null;
}

/**
 * Prepares the location of an archive's control socket. The caller holds the archive's lock, so any existing socket is
 * stale.
 *
 * @throws daemon-socket-failed, daemon-socket-folder
 */
export function prepareControlSocket(
  dataDir: string,
  env: Readonly<Record<string, string | undefined>>,
): ControlSocketPath {
  const inArchive = path.join(dataDir, SOCKET);
  const pointer = path.join(dataDir, POINTER);
  try {
    rmSync(inArchive, { force: true });
    rmSync(pointer, { force: true });
    if (isValidSocketPath(inArchive)) return { socket: inArchive, pointer: null };
    const name = `${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}.sock`;
    const socket = path.join(privateFolder(env, name.length), name);
    rmSync(socket, { force: true });
    writeFileSync(pointer, `${socket}\n`, { mode: 0o600 });
    return { socket, pointer };
  } catch (error) {
    throw controlSocketError(inArchive, error);
  }
}

/** Converts a system error into a control socket error. Returns other errors unchanged. */
export function controlSocketError(file: string, error: unknown): unknown {
  const reason = errnoName(error);
  const isKnown = error instanceof MailkeepError || reason === 'unknown';
  return isKnown ? error : daemonError('daemon-socket-failed', { file, reason });
}

/**
 * Returns an archive's control socket, or null if there is none. The archive may have been packed by another user, so
 * the socket must belong to this one. Outside the archive, it must be in a private folder.
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
  if (!stat.isFile() || stat.size > MAX_POINTER_BYTES) throw foreign;
  const socket = readFileSync(pointer, 'utf8').trim();
  if (!existsSync(socket)) return null;
  const folder = lstatSync(path.dirname(socket));
  if (!path.isAbsolute(socket) || !isPrivateFolder(folder, dataDir)) throw foreign;
  if (!isOwnSocket(socket, dataDir)) throw foreign;
  return socket;
}
