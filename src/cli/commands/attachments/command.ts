import { readdirSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import type { AttachmentTextState } from '../../../catalog/attachment-texts.ts';
import { makeFolders } from '../../../disk/make-folders.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoOf, hasCode, type MailkeepError } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { ExtractedAttachment } from '../../../mime/extraction.ts';
import { openAttachments, readMessage } from '../../../mime/reading.ts';
import { safeFileName } from '../../../mime/safe-file-name.ts';
import { bytes } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';

const HELP = `
Lists the attachments of a message, or saves them. File names come from the sender: mailkeep makes them safe,
overwrites no file, and writes nothing outside the folder.

If the text of an attachment is not searchable, the list shows why: it is not read yet, or could not be read
(encrypted, malformed, …).

EXAMPLES
  mailkeep attachments 3f2a91c4
  mailkeep attachments 3f2a91c4 --save ~/Downloads`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .option('--save <dir>', 'save all of them to this folder')
    .addHelpText('after', HELP)
    .action((typed: string, options: { readonly save?: string }) =>
      chosen((context) =>
        withReader(context, (reader) => attachmentsOf(context, reader, typed, options.save)),
      ),
    );
}

async function attachmentsOf(
  { output, notices, surroundings }: CommandContext,
  reader: Reader,
  typed: string,
  saveTo: string | undefined,
): Promise<ExitCode> {
  const id = oneMessage(reader, typed);
  const source = reader.sources().streamMessage(id);
  const texts = textStates(reader, id);
  const textOf = ({ number }: { readonly number: number }) => texts.get(number) ?? null;
  if (saveTo === undefined) {
    for (const attachment of (await readMessage(source)).attachments) {
      const text = textOf(attachment);
      await output.line({ ...attachment, text }, () => attachmentLine(attachment, text));
    }
    return EXIT.done;
  }
  const folder = path.resolve(surroundings.cwd, saveTo);
  const { saved, unreadable } = await saveAttachments(folder, source);
  for (const attachment of saved) {
    await output.line(
      { ...attachment, text: textOf(attachment) },
      () => `${attachmentLine(attachment, null)}  ->  ${attachment.savedAs}`,
    );
  }
  if (unreadable === null) return EXIT.done;
  notices.warn(sentenceOf(unreadable).message);
  return EXIT.failures;
}

type TextState = Pick<AttachmentTextState, 'status' | 'reason' | 'truncated'>;

/** What is known of the attachments' own text, by their numbers; pictures and the like have none. */
function textStates({ catalog }: Reader, id: string): ReadonlyMap<number, TextState> {
  const docid = catalog.messages.docidOf(id);
  const states = docid === undefined ? [] : catalog.attachments.ofMessage(docid);
  return new Map(
    states.map(({ number, status, reason, truncated }) => [number, { status, reason, truncated }]),
  );
}

function attachmentLine(attachment: ExtractedAttachment, text: TextState | null): string {
  const { number, filename, contentType, size } = attachment;
  const line = `${number}  ${terminalLine(filename ?? '(no name)')}  ${terminalLine(contentType)}, ${bytes(size)}`;
  if (text === null || text.status === 'done') return line;
  return `${line}  (not searchable${text.reason === null ? ' yet' : `: ${text.reason}`})`;
}

/** Files held open at a time: two attachments may take turns, hundreds do not. */
const OPEN_FILES = 16;

interface SavedAttachments {
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
async function saveAttachments(
  folder: string,
  source: AsyncIterable<Uint8Array>,
): Promise<SavedAttachments> {
  const taken = new Set<string>();
  try {
    // Mail is private, whatever the umask: so is each file.
    makeFolders(folder, 0o700);
    for (const name of readdirSync(folder)) safeFileName(name, { fallback: 'x', taken });
  } catch (error) {
    throw failure(folder, error);
  }
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

function failure(file: string, error: unknown): unknown {
  const reason = errnoOf(error);
  return reason === undefined ? error : usageError('usage-save-failed', { file, reason });
}
