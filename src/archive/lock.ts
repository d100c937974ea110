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
import { errnoOf } from '../core/errors.ts';
import { makeFoldersDurably } from '../core/files.ts';
import { archiveInUse, archiveLockFailed } from './errors.ts';
import { FILE_MODE, FOLDER_MODE, isCount, isObject, parseJson } from './format.ts';

/** The process that holds the lock of an archive. */
interface LockHolder {
  readonly pid: number;
  /** The command of mailkeep, such as `daemon`; empty where a program uses the library. */
  readonly command: string;
  /** When it took the lock, ISO 8601 in UTC. */
  readonly since: string;
  /** Another machine or container, where nothing here can check that the process still runs; null for this one. */
  readonly host: string | null;
}

interface Note extends LockHolder {
  readonly host: string;
  /** When the process started, in the system's own words: a process id is used again. Null where they are unknown. */
  readonly started: string | null;
}

/** Written by whoever takes the lock, and removed by whoever releases it; a killed process leaves it. */
export function holderPath(dir: string): string {
  return join(dir, 'lock.json');
}

let ownCommand = '';

/** Sets the command by which other processes will know this one while it holds a lock. */
export function nameProcess(command: string): void {
  ownCommand = command;
}

/** Notes this process as the holder. The note is for people only: where it cannot be written, there is none. */
function noteHolder(dir: string): void {
  const { pid } = process;
  const note: Note = {
    pid,
    command: ownCommand,
    since: new Date().toISOString(),
    host: hostname(),
    started: startOf(pid),
  };
  try {
    dropHolder(dir);
    writeFileSync(holderPath(dir), `${JSON.stringify(note)}\n`, { mode: FILE_MODE, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    dropHolder(dir);
  }
}

/** Removes the note, if it can be removed. */
function dropHolder(dir: string): void {
  try {
    rmSync(holderPath(dir), { force: true });
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

/**
 * Returns the process that the note names, or null where there is none, or where it is of a process that runs no longer:
 * a killed process leaves its note, and the next holder may not have written one.
 */
export function noteOfHolder(dir: string): LockHolder | null {
  const note = readNote(holderPath(dir));
  if (note === null) return null;
  const { pid, command, since, host, started } = note;
  if (host !== hostname()) return { pid, command, since, host };
  return isRunning(pid) && startOf(pid) === started ? { pid, command, since, host: null } : null;
}

const LONGEST_NOTE = 4096;

function readNote(file: string): Note | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return null;
  }
  const note = text.length > LONGEST_NOTE ? undefined : parseJson(text);
  return isNote(note) ? note : null;
}

function isNote(value: unknown): value is Note {
  if (!isObject(value)) return false;
  const { pid, command, since, host, started } = value;
  return (
    isCount(pid) &&
    pid > 0 &&
    typeof command === 'string' &&
    typeof since === 'string' &&
    !Number.isNaN(Date.parse(since)) &&
    typeof host === 'string' &&
    (started === null || typeof started === 'string')
  );
}

/** True also for the process of another user. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return errnoOf(error) === 'EPERM';
  }
}

/**
 * Returns the boot and the clock tick at which a process started (proc_pid_stat(5), field 22), on Linux; null on other
 * systems and where there is no such process.
 */
export function startOf(pid: number): string | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program may hold blanks and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return `${boot} ${fields[19] ?? ''}`;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return null;
  }
}

/** The right to write to an archive, held until released or until the process ends, however it ends. */
interface ArchiveLock {
  release(): void;
}

/**
 * Takes the one writer's lock of an archive: an exclusive transaction on the SQLite file `lock`, which the system frees
 * even after `kill -9`. It never waits. Creates the folder (0700) when there is none.
 *
 * Nothing else may open the file `lock` within this process: POSIX drops a process's locks on a file when any of its
 * descriptors of it is closed.
 *
 * @throws `archive-in-use` when another process holds it; `archive-lock-failed` when the file cannot be locked at all
 */
export function acquireLock(dir: string): ArchiveLock {
  const held = lockFile(dir);
  noteHolder(dir);
  let released = false;
  return {
    release: () => {
      // After the first release the note may be that of the next holder.
      if (!released) dropHolder(dir);
      released = true;
      // Closing rolls the empty transaction back and frees the lock; a second release is harmless.
      held.close();
    },
  };
}

/**
 * Takes the lock and frees it at once: returns if nobody holds it.
 *
 * @throws as `acquireLock`
 */
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
    // SQLite begins on a file that it can only read as well, where no lock keeps anybody away.
    accessSync(path, constants.R_OK | constants.W_OK);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw archiveInUse(dir, noteOfHolder(dir), error);
    throw archiveLockFailed(dir, whyNot(dir, error));
  }
  return database;
}

/** The system's reason, where it has one: SQLite reports only that it cannot open a file. */
function whyNot(dir: string, error: unknown): unknown {
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
