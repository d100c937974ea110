import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { errnoOf, type MailkeepError } from '../errors/mailkeep-error.ts';
import { archiveUnwritable } from '../errors/system.ts';

/**
 * Tries to write where a sync would: writes a file and removes it. If there is no folder yet, a trial one is made above it and removed.
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
      const trial = path.join(folder, `.doctor-${process.pid}`);
      if (folder === dataDir) writeOnce(trial);
      else writeBelow(trial);
    },
    (errno, cause) => archiveUnwritable(folder, errno, cause),
  );
  return { folder, error };
}

/** A file system such as /proc may let root write and still take no folder; a control group takes one, but no file. */
function writeBelow(folder: string): void {
  mkdirSync(folder, { mode: 0o700 });
  try {
    writeOnce(path.join(folder, 'trial'));
  } finally {
    rmdirSync(folder);
  }
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
