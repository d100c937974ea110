import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import {
  formatPath,
  logFolder,
  parseSegmentName,
  segmentName,
} from '../../../archive/format/layout.ts';
import { catalogFile } from '../../../catalog/open.ts';
import { openRegularFile } from '../../../disk/regular-file.ts';
import { errnoOf } from '../../../errors/errno.ts';
import type { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { archiveUnreadable, archiveUnwritable } from '../../../errors/system.ts';
import { stateFile } from '../../../state/state-file.ts';
import { type Check, failed, well } from './check.ts';

/** Writes a file where a sync would write, and removes it. Where there is no folder yet, one must be possible. */
export function writeCheck(dataDir: string): Check {
  const at = { name: 'write', about: null };
  let folder = dataDir;
  while (!existsSync(folder) && isMissing(folder)) folder = path.dirname(folder);
  const error = attempt(
    () => {
      if (folder === dataDir) writeOnce(path.join(dataDir, `.doctor-${process.pid}`));
      else accessSync(folder, constants.W_OK | constants.X_OK);
    },
    (errno, cause) => archiveUnwritable(folder, errno, cause),
  );
  if (error !== undefined) return failed(at.name, at.about, error);
  return well({ ...at, message: `${folder} can be written.` });
}

/** Opens what a sync reads (FORMAT, every segment), and tries what it writes: the last segment, the catalog, the state. */
export function logCheck(dataDir: string): Check {
  const at = { name: 'log', about: null };
  const folder = logFolder(dataDir);
  let names: string[] = [];
  const listing = attempt(
    () => {
      closeSync(openRegularFile(formatPath(dataDir)));
      names = readdirSync(folder).filter((name) => name.endsWith('.seg'));
    },
    (errno, cause) => archiveUnreadable(dataDir, errno, cause),
  );
  if (listing !== undefined) return failed(at.name, at.about, listing);
  for (const name of names) {
    const file = path.join(folder, name);
    const error = attempt(
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
    const error = attempt(
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

function writeOnce(file: string): void {
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    writeSync(descriptor, 'mailkeep doctor\n');
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
    unlinkSync(file);
  }
}

/** False where a part of the path cannot be looked into: that is what fails then. */
function isMissing(folder: string): boolean {
  try {
    accessSync(folder, constants.F_OK);
    return false;
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

/** Returns the error of an act that the system refused. */
function attempt(
  act: () => void,
  refused: (errno: string, cause: unknown) => MailkeepError,
): MailkeepError | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return refused(errno, error);
  }
}
