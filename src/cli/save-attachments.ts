import { mkdirSync, readdirSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { errnoOf } from '../errors/errno.ts';
import { usageError } from '../errors/usage.ts';
import type { ExtractedAttachment } from '../mime/extraction.ts';
import { openAttachment } from '../mime/reading.ts';
import { safeFileName } from '../mime/safe-file-name.ts';

/**
 * Saves attachments of one message into a folder, under names that are safe and new there. The folder is made
 * where there is none.
 *
 * @throws usage-save-failed
 */
export function attachmentSaver(
  folder: string,
  source: () => AsyncIterable<Uint8Array>,
): (attachment: ExtractedAttachment) => Promise<string> {
  const taken = new Set<string>();
  saving(folder, () => {
    mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(folder)) safeFileName(name, { fallback: 'x', taken });
  });
  return async ({ number, filename }) => {
    const handle = await newFile(folder, () =>
      safeFileName(filename, { fallback: `attachment-${number}`, taken }),
    );
    const { content } = await openAttachment(source(), number);
    await fill(handle, content);
    return handle.file;
  };
}

interface NewFile {
  readonly file: string;
  readonly handle: FileHandle;
}

/** Creates a file under the first name that is free; never through a link, and never over what is there. */
async function newFile(folder: string, nextName: () => string): Promise<NewFile> {
  for (;;) {
    const file = path.join(folder, nextName());
    try {
      return { file, handle: await open(file, 'wx', 0o600) };
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw failure(file, error);
    }
  }
}

async function fill({ file, handle }: NewFile, content: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const piece of content) await handle.writeFile(piece);
    await handle.close();
  } catch (error) {
    await handle.close();
    await rm(file, { force: true });
    throw failure(file, error);
  }
}

function saving(file: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    throw failure(file, error);
  }
}

function failure(file: string, error: unknown): unknown {
  const reason = errnoOf(error);
  return reason === undefined ? error : usageError('usage-save-failed', { file, reason });
}
