import { hash } from 'node:crypto';
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../archive/format/layout.ts';
import { startOf } from '../archive/write/lock.ts';
import { makeFolders } from '../disk/make-folders.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { isRunning } from '../export/export-files.ts';

/** An archive that this process may not write is drilled outside it. */
const READ_ONLY = new Set(['EROFS', 'EACCES', 'EPERM']);

/** Begins a name in the system's temporary folder, where other programs have theirs. */
const PREFIX = 'mailkeep-';

/** A process and, since pids are used again (in a container for every run), a mark of when it started. */
const OWNER = /^drill-(\d+)-(?:([0-9a-f]{8})-)?/;

/**
 * Creates a folder that only its owner may read, in the archive or, where that is not writable, in the temporary folder.
 * Those of killed drills, which hold plain mail, are removed from both.
 *
 * @param temporary the system's folder for temporary files
 * @throws system errors of writing
 */
export function createWorkFolder(dir: string, temporary: string): string {
  sweepTemporary(temporary);
  const name = `drill-${process.pid}-${startMark(process.pid)}-`;
  try {
    const parent = path.join(dir, 'tmp');
    makeFolders(parent, FOLDER_MODE);
    sweep(parent, '');
    return mkdtempSync(path.join(parent, name));
  } catch (error) {
    if (!READ_ONLY.has(errnoOf(error) ?? '')) throw error;
    return mkdtempSync(path.join(temporary, `${PREFIX}${name}`));
  }
}

/** One that cannot be listed has nothing that could be removed: whether a drill can work there shows when it tries. */
function sweepTemporary(temporary: string): void {
  try {
    sweep(temporary, PREFIX);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

function sweep(parent: string, prefix: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue;
    const [, pid, mark] = OWNER.exec(name.slice(prefix.length)) ?? [];
    if (pid === undefined || isUnderWay(Number(pid), mark)) continue;
    const folder = path.join(parent, name);
    // What is in the archive is the archive's.
    if (prefix === '' || isOwnFolder(folder)) rmSync(folder, { recursive: true, force: true });
  }
}

function isUnderWay(pid: number, mark: string | undefined): boolean {
  if (pid !== process.pid && !isRunning(pid)) return false;
  return mark === undefined || mark === startMark(pid);
}

/** Everybody may put anything into a temporary folder. */
function isOwnFolder(folder: string): boolean {
  const stats = lstatSync(folder, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isDirectory()) return false;
  const user = process.getuid?.();
  return user === undefined || stats.uid === user;
}

/** 8 hex digits: the same for as long as the process runs, and the same for all where the system does not say. */
function startMark(pid: number): string {
  return hash('sha256', startOf(pid) ?? '').slice(0, 8);
}
