import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { makeFolders } from '../../../disk/make-folders.ts';
import { configError } from '../../../errors/config.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';

/**
 * Writes a file that did not exist, for its owner alone (0600), and makes it durable.
 *
 * @throws config-exists when there is one; usage-save-failed when it cannot be written
 */
export function writeNewFile(file: string, text: string): void {
  try {
    makeFolders(path.dirname(file), 0o700);
    const descriptor = openSync(file, 'wx', 0o600);
    try {
      writeSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'EEXIST') throw configError('config-exists', { file });
    throw usageError('usage-save-failed', { file, reason });
  }
}
