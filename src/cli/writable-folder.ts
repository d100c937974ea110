import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { errnoOf, type MailkeepError } from '../errors/mailkeep-error.ts';
import { archiveUnwritable } from '../errors/system.ts';

/**
 * Tries to write where a sync would: writes a file and removes it. Where there is no folder yet, one must be possible.
 *
 * @returns the folder that was tried, and what the system refused
 */
export function tryWriting(dataDir: string): {
  readonly folder: string;
  readonly error: MailkeepError | undefined;
} {
  let folder = dataDir;
  while (!existsSync(folder) && isMissing(folder)) folder = path.dirname(folder);
  const error = refusal(
    () => {
      if (folder === dataDir) writeOnce(path.join(dataDir, `.doctor-${process.pid}`));
      else accessSync(folder, constants.W_OK | constants.X_OK);
    },
    (errno, cause) => archiveUnwritable(folder, errno, cause),
  );
  return { folder, error };
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

/** Returns the error of an act that the system refused; undefined if it was done. */
export function refusal(
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
