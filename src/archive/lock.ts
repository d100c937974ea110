import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { errnoName, errnoOf } from '../core/errors.ts';
import { makeFoldersDurably } from '../core/files.ts';
import { archiveError } from './errors.ts';
import {
  type Checked,
  FILE_MODE,
  FOLDER_MODE,
  hasFields,
  isCount,
  isText,
  isTextOrNull,
  parseJson,
} from './format.ts';

const isNote = hasFields({
  pid: (value): value is number => isCount(value) && value > 0,
  /** The mailkeep command, such as `daemon`. Empty if a program uses the library. */
  command: isText,
  /** ISO 8601 in UTC. */
  since: (value): value is string => isText(value) && !Number.isNaN(Date.parse(value)),
  host: isText,
  /** Start time of the process as reported by the system, because process IDs are reused. Null if unknown. */
  started: isTextOrNull,
});
type Note = Checked<typeof isNote>;

interface LockHolder extends Pick<Note, 'pid' | 'command' | 'since'> {
  /** Name of another machine or container, whose processes cannot be checked. Null for this machine. */
  readonly host: string | null;
}

/** Returns the path of the file that identifies the lock's holder. A killed process leaves the file behind. */
export function holderPath(dir: string): string {
  return join(dir, 'lock.json');
}

let processName = '';

export function setProcessName(command: string): void {
  processName = command;
}

/** Records this process as the holder. Ignores a failed write, because the file is only for humans. */
function noteHolder(dir: string): void {
  const { pid } = process;
  const note: Note = {
    pid,
    command: processName,
    since: new Date().toISOString(),
    host: hostname(),
    started: processStart(pid),
  };
  try {
    dropHolder(dir);
    writeFileSync(holderPath(dir), `${JSON.stringify(note)}\n`, { mode: FILE_MODE, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    dropHolder(dir);
  }
}

function dropHolder(dir: string): void {
  try {
    rmSync(holderPath(dir), { force: true });
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

/** Returns the lock's holder, or null if none is recorded or its process has exited. */
export function readHolder(dir: string): LockHolder | null {
  const note = readNote(holderPath(dir));
  if (note === null) return null;
  const { pid, command, since, host, started } = note;
  if (host !== hostname()) return { pid, command, since, host };
  return isRunning(pid) && processStart(pid) === started
    ? { pid, command, since, host: null }
    : null;
}

const MAX_NOTE = 4096;

function readNote(file: string): Note | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return null;
  }
  const note = text.length > MAX_NOTE ? undefined : parseJson(text);
  return isNote(note) ? note : null;
}

export function isRunning(pid: number): boolean {
  // A file name can contain any number.
  if (pid <= 0 || pid !== (pid | 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    // The process belongs to another user.
    return errnoOf(error) === 'EPERM';
  }
}

/** Returns the boot ID and clock tick at which a process started (proc_pid_stat(5), field 22). Null except on Linux. */
export function processStart(pid: number): string | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The program name may contain spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return `${boot} ${fields[19] ?? ''}`;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return null;
  }
}

/**
 * Locks an archive for its only writer, without waiting. The lock is an exclusive transaction on the SQLite file
 * `lock`, which the system releases even after `kill -9`. Creates the directory (0700) if missing. Nothing else in this
 * process may open that file: POSIX drops a process's locks on a file when any of its descriptors is closed.
 *
 * @throws `archive-in-use` if another process holds the lock; `archive-lock-failed` if the file cannot be locked
 */
export function acquireLock(dir: string) {
  const database = lockFile(dir);
  noteHolder(dir);
  let isReleased = false;
  return {
    release: () => {
      // By the time of a second call, the file may belong to the next holder.
      if (!isReleased) dropHolder(dir);
      isReleased = true;
      // Rolls back the empty transaction, which releases the lock.
      database.close();
    },
  };
}

/** Checks that the lock is available. @throws the same errors as `acquireLock` */
export function tryLock(dir: string): void {
  lockFile(dir).close();
}

function lockFile(dir: string): Database.Database {
  let database: Database.Database | undefined;
  try {
    makeFoldersDurably(dir, FOLDER_MODE);
    const path = join(dir, 'lock');
    const isNew = !existsSync(path);
    database = new Database(path, { timeout: 0 });
    if (isNew) chmodSync(path, FILE_MODE);
    // SQLite can start a transaction on a read-only file, but that lock excludes nobody.
    accessSync(path, constants.R_OK | constants.W_OK);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (isBusy(error)) {
      const { pid = null, command = null, since = null, host = null } = readHolder(dir) ?? {};
      throw archiveError('archive-in-use', { dir, pid, command, since, host }, error);
    }
    const reason = explainFailure(dir, error);
    throw archiveError('archive-lock-failed', { dir, errno: errnoName(reason) }, reason);
  }
  return database;
}

/** Asks the system why the file cannot be opened, because SQLite does not report the reason. */
function explainFailure(dir: string, error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  try {
    const path = join(dir, 'lock');
    accessSync(existsSync(path) ? path : dir, constants.R_OK | constants.W_OK);
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    return error;
  } catch (reason) {
    return reason;
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY');
}

/**
 * Runs `act` while holding the writer's lock.
 *
 * @throws archive-in-use, and errors from `act`
 */
export async function withLock<T>(dataDir: string, act: () => Promise<T>): Promise<T> {
  const lock = acquireLock(dataDir);
  try {
    return await act();
  } finally {
    lock.release();
  }
}
