import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { errnoOf } from '../../errors/mailkeep-error.ts';
import { isCount, isObject, parseJson } from '../format/json-shape.ts';
import { FILE_MODE } from '../format/layout.ts';

/** The process that holds the lock of an archive. */
export interface LockHolder {
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
export function noteHolder(dir: string): void {
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
export function dropHolder(dir: string): void {
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
