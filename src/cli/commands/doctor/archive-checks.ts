import { existsSync } from 'node:fs';
import path from 'node:path';
import { freeBytes } from '../../../archive/files/file-layer.ts';
import { fileSystemOf } from '../../../archive/files/file-system.ts';
import { noteOfHolder, tryLock } from '../../../archive/write/lock.ts';
import { holdsArchive } from '../../../engine/archive/archive-folder.ts';
import { networkFileSystem } from '../../../errors/archive.ts';
import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import {
  damageError,
  recalledVerification,
  verificationStatus,
} from '../../../health/verification.ts';
import { readState } from '../../../state/state-file.ts';
import { bytes } from '../../../wording/amounts.ts';
import { holderText } from '../../../wording/archive.ts';
import { verifiedText } from '../../known-damage.ts';
import { type Check, failed, skipped, warned, well } from './check.ts';
import { logCheck, writeCheck } from './writable.ts';

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
