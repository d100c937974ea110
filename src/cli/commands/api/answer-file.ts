import { randomUUID } from 'node:crypto';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';

/**
 * Writes an answer to a file, for its owner alone (0600), in the place of one that is there: the whole answer or
 * nothing. What is no regular file (a pipe, /dev/null) is written to as it is.
 *
 * @throws usage-save-failed
 */
export async function writeAnswerFile(
  file: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  try {
    if (await isSpecial(file)) return await fill(await open(file, 'w'), chunks);
    const temporary = `${file}.${randomUUID()}.tmp`;
    try {
      await fill(await open(temporary, 'wx', 0o600), chunks);
      await rename(temporary, file);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  } catch (error) {
    const reason = errnoOf(error);
    throw reason === undefined ? error : usageError('usage-save-failed', { file, reason });
  }
}

/** Links count as special: what they point to is replaced, not they. */
async function isSpecial(file: string): Promise<boolean> {
  try {
    return !(await lstat(file)).isFile();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function fill(
  handle: FileHandle,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  try {
    for await (const chunk of chunks) await handle.writeFile(chunk);
  } finally {
    await handle.close();
  }
}
