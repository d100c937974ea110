import { readdirSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { makeFolders } from '../../../disk/make-folders.ts';
import { errnoOf, hasCode, type MailkeepError } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import type { ExtractedAttachment } from '../../../mime/extraction.ts';
import { openAttachments } from '../../../mime/reading.ts';
import { safeFileName } from '../../../mime/safe-file-name.ts';

/** Files held open at a time: two attachments may take turns, hundreds do not. */
const OPEN_FILES = 16;

export interface SavedAttachments {
  readonly saved: readonly (ExtractedAttachment & { readonly savedAs: string })[];
  /** Why the message was not read to its end: then the attachment it broke off in, and those behind, are missing. */
  readonly unreadable: MailkeepError | null;
}

/**
 * Saves the attachments of one message into a folder, in one reading of the message, under names that are safe and
 * new there. The folder is made where there is none, for its owner only. When writing or `source` fails, what was written is taken back.
 *
 * @throws usage-save-failed, and whatever `source` throws
 */
export async function saveAttachments(
  folder: string,
  source: AsyncIterable<Uint8Array>,
): Promise<SavedAttachments> {
  const taken = new Set<string>();
  saving(folder, () => {
    // Mail is private, whatever the umask: so is each file.
    makeFolders(folder, 0o700);
    for (const name of readdirSync(folder)) safeFileName(name, { fallback: 'x', taken });
  });
  const files: NewFile[] = [];
  let unreadable: MailkeepError | null = null;
  try {
    try {
      for await (const piece of openAttachments(source)) {
        if ('attachment' in piece) {
          const { number, filename } = piece.attachment;
          const nextName = () =>
            safeFileName(filename, { fallback: `attachment-${number}`, taken });
          files.push(await newFile(folder, nextName, piece.attachment));
          const old = files.at(-OPEN_FILES);
          if (old !== undefined) await close(old);
        } else await append(files[piece.number - 1], piece.bytes);
      }
    } catch (error) {
      if (!hasCode(error, 'mail-unreadable')) throw error;
      unreadable = error;
      // The one it broke off in may be half of one.
      const last = files.pop();
      if (last !== undefined) await remove(last);
    }
    for (const file of files) await close(file);
  } catch (error) {
    for (const file of files) await remove(file);
    throw error;
  }
  const saved = files.map(({ attachment, size, path: savedAs }) => ({
    ...attachment,
    size,
    savedAs,
  }));
  return { saved, unreadable };
}

async function remove(file: NewFile): Promise<void> {
  await file.handle?.close();
  await rm(file.path, { force: true });
}

interface NewFile {
  readonly attachment: Omit<ExtractedAttachment, 'size'>;
  readonly path: string;
  /** Bytes written. */
  size: number;
  /** Null once it was closed. */
  handle: FileHandle | null;
}

/** Creates a file under the first name that is free; never through a link, and never over what is there. */
async function newFile(
  folder: string,
  nextName: () => string,
  attachment: NewFile['attachment'],
): Promise<NewFile> {
  for (;;) {
    const file = path.join(folder, nextName());
    try {
      return { attachment, path: file, size: 0, handle: await open(file, 'wx', 0o600) };
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw failure(file, error);
    }
  }
}

async function append(file: NewFile | undefined, bytes: Uint8Array): Promise<void> {
  // Bytes come behind the attachment they are of, and before the sixteenth after it.
  if (file?.handle == null) throw new Error('bytes of an attachment that is not open');
  try {
    await file.handle.writeFile(bytes);
    file.size += bytes.byteLength;
  } catch (error) {
    throw failure(file.path, error);
  }
}

async function close(file: NewFile): Promise<void> {
  const { handle } = file;
  file.handle = null;
  try {
    await handle?.close();
  } catch (error) {
    throw failure(file.path, error);
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
