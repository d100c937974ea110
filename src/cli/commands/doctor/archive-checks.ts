import { accessSync, closeSync, constants, existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { freeBytes } from '../../../archive/files/file-layer.ts';
import { fileSystemOf } from '../../../archive/files/file-system.ts';
import {
  formatPath,
  logFolder,
  parseSegmentName,
  segmentName,
} from '../../../archive/format/layout.ts';
import { noteOfHolder, tryLock } from '../../../archive/write/lock.ts';
import { catalogFile } from '../../../catalog/open.ts';
import { openRegularFile } from '../../../disk/regular-file.ts';
import { holdsArchive } from '../../../engine/archive/archive-folder.ts';
import { networkFileSystem } from '../../../errors/archive.ts';
import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { archiveUnreadable, archiveUnwritable } from '../../../errors/system.ts';
import {
  damageError,
  recalledVerification,
  verificationStatus,
} from '../../../health/verification.ts';
import { readState, stateFile } from '../../../state/state-file.ts';
import { bytes } from '../../../wording/amounts.ts';
import { holderText } from '../../../wording/archive.ts';
import { verifiedText } from '../../known-damage.ts';
import { refusal, tryWriting } from '../../writable-folder.ts';
import { type Check, failed, skipped, warned, well } from './check.ts';

/** The folder of the archive: its file system, its room, its files, its lock, its last verification. Leaves nothing behind. */
export async function archiveChecks(
  dataDir: string,
  minFreeBytes: number,
  allowNetwork: boolean,
  now: number,
): Promise<Check[]> {
  const checks = [
    fileSystemCheck(dataDir, allowNetwork),
    await spaceCheck(dataDir, minFreeBytes),
    writeCheck(dataDir),
  ];
  try {
    if (!holdsArchive(dataDir, true)) {
      const message = `There is no archive in ${dataDir} yet: the first sync creates it.`;
      return [...checks, skipped({ name: 'lock', about: null, message })];
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return [...checks, failed('log', null, error)];
  }
  return [...checks, logCheck(dataDir), lockCheck(dataDir), verificationCheck(dataDir, now)];
}

function fileSystemCheck(dataDir: string, allowNetwork: boolean): Check {
  const at = { name: 'file-system', about: null };
  const found = fileSystemOf(dataDir);
  if (found === null) {
    return skipped({ ...at, message: 'The file system type cannot be determined on this system.' });
  }
  const { type, mountPoint, network } = found;
  if (!network) return well({ ...at, message: `${dataDir} is on ${type} (${mountPoint}).` });
  const error = networkFileSystem({ dir: dataDir, type, mountPoint });
  const refused = failed(at.name, at.about, error);
  return allowNetwork ? warned({ ...at, message: refused.message }) : refused;
}

async function spaceCheck(dataDir: string, minFreeBytes: number): Promise<Check> {
  const at = { name: 'free-space', about: null };
  let folder = dataDir;
  while (!existsSync(folder)) folder = path.dirname(folder);
  const free = await freeBytes(folder);
  if (free < minFreeBytes) {
    return failed(at.name, at.about, new MailkeepError('disk', 'disk.low', { free, minFreeBytes }));
  }
  const until = minFreeBytes > 0 ? `, and fetching stops below ${bytes(minFreeBytes)}` : '';
  const message = `${bytes(free)} are free${until}.`;
  // A first sync, and rewriting the catalog, need room for a while.
  if (free < 2 * minFreeBytes) {
    return warned({ ...at, message, remedy: 'Free some space, or lower minFreeBytes.' });
  }
  return well({ ...at, message });
}

/** Tries to write a file where a sync would. */
function writeCheck(dataDir: string): Check {
  const at = { name: 'write', about: null };
  const { folder, error } = tryWriting(dataDir);
  if (error !== undefined) return failed(at.name, at.about, error);
  return well({ ...at, message: `${folder} can be written.` });
}

/** Opens what a sync reads (FORMAT, every segment), and tries what it writes: the last segment, the catalog, the state. */
function logCheck(dataDir: string): Check {
  const at = { name: 'log', about: null };
  const folder = logFolder(dataDir);
  let names: string[] = [];
  const listing = refusal(
    () => {
      closeSync(openRegularFile(formatPath(dataDir)));
      names = readdirSync(folder).filter((name) => name.endsWith('.seg'));
    },
    (errno, cause) => archiveUnreadable(dataDir, errno, cause),
  );
  if (listing !== undefined) return failed(at.name, at.about, listing);
  for (const name of names) {
    const file = path.join(folder, name);
    const error = refusal(
      () => openThere(file),
      (errno, cause) => archiveUnreadable(file, errno, cause),
    );
    if (error !== undefined) return failed(at.name, at.about, error);
  }
  const databases = [catalogFile(dataDir), stateFile(dataDir)];
  const written = [
    folder,
    ...appendedTo(names).map((name) => path.join(folder, name)),
    ...databases.flatMap((file) => [file, `${file}-wal`, `${file}-shm`]),
  ];
  for (const file of written.filter((name) => existsSync(name))) {
    // Not opened: closing it would take away the locks of connections that this process may have.
    const error = refusal(
      () => accessSync(file, constants.R_OK | constants.W_OK),
      (errno, cause) => archiveUnwritable(file, errno, cause),
    );
    // A sealing replaces a segment, and SQLite removes a write-ahead log, at any moment.
    if (error !== undefined && existsSync(file)) return failed(at.name, at.about, error);
  }
  return well({ ...at, message: 'The log, the catalog and the state can be read and written.' });
}

/** The segment that a writer appends to: the last one, while it is not sealed. */
function appendedTo(names: readonly string[]): string[] {
  const segments = names.map(parseSegmentName).filter((name) => name !== undefined);
  const last = Math.max(...segments.map(({ segment }) => segment));
  const files = segments.filter(({ segment }) => segment === last);
  return files.every(({ generation }) => generation === 1) ? files.map(segmentName) : [];
}

/** A sealing may have replaced the file since the folder was listed. */
function openThere(file: string): void {
  if (existsSync(file)) closeSync(openRegularFile(file));
}

function lockCheck(dataDir: string): Check {
  const at = { name: 'lock', about: null };
  try {
    tryLock(dataDir);
    return well({ ...at, message: 'No process is writing to the archive.' });
  } catch (error) {
    if (hasCode(error, 'archive-in-use')) {
      const holder = noteOfHolder(dataDir);
      const who =
        holder === null
          ? 'a daemon, or a sync'
          : holderText(holder.pid, holder.command, holder.since, holder.host);
      return well({ ...at, message: `Another process is writing to the archive: ${who}.` });
    }
    if (!(error instanceof MailkeepError)) throw error;
    return failed(at.name, at.about, error);
  }
}

/** What the last verification came to. */
function verificationCheck(dataDir: string, now: number): Check {
  const at = { name: 'verification', about: null };
  const state = readState(dataDir);
  try {
    const last = recalledVerification(state);
    const shown = verificationStatus(last);
    if (last === null || shown === null) {
      const remedy = '"mailkeep verify" reads every byte.';
      return skipped({ ...at, message: 'The archive was never verified.', remedy });
    }
    if (last.damage !== null) return failed(at.name, at.about, damageError(last.damage));
    return well({ ...at, message: `The archive was ${verifiedText(shown, now)}.` });
  } catch (error) {
    // For example, the state is damaged: what it knew about the archive's damage is unknown.
    if (!(error instanceof MailkeepError)) throw error;
    return failed(at.name, at.about, error);
  } finally {
    state?.close();
  }
}
