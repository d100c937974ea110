import { readdirSync } from 'node:fs';
import { constants, type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import type { AttachmentTextState } from '../../catalog/attachment-texts.ts';
import type { Reader } from '../../catalog/open-reader.ts';
import { usageError } from '../../core/error-tables.ts';
import { errnoOf } from '../../core/errors.ts';
import { makeFolders } from '../../core/files.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, counted } from '../../core/text.ts';
import type { ExtractedAttachment } from '../../mail/extraction.ts';
import { safeFileName } from '../../mail/file-names.ts';
import { openAttachments, readMessage } from '../../mail/reading.ts';
import { findMessage, withReader } from '../archive.ts';
import type { CommandContext, Register } from '../context.ts';

const HELP = `
Lists the attachments of a message, or saves them. File names come from the sender: mailkeep makes them safe,
overwrites no file, and writes nothing outside the folder.

If the text of an attachment is not searchable, the list shows why: it is not read yet, or could not be read
(encrypted, malformed, …).

EXAMPLES
  mailkeep attachments 3f2a91c4
  mailkeep attachments 3f2a91c4 --save ~/Downloads`;

export const register: Register = (command, run) => {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .option('--save <dir>', 'save all of them to this folder')
    .addHelpText('after', HELP)
    .action((typed: string, options: { readonly save?: string }) =>
      run((context) =>
        withReader(context, (reader) => attachmentsOf(context, reader, typed, options.save)),
      ),
    );
};

async function attachmentsOf(
  { output, notices, environment }: CommandContext,
  reader: Reader,
  typed: string,
  saveTo: string | undefined,
): Promise<void> {
  const id = findMessage(reader, typed);
  const source = reader.sources().streamMessage(id);
  const texts = textStates(reader, id);
  const textOf = ({ number }: { readonly number: number }) => texts.get(number) ?? null;
  if (saveTo === undefined) {
    for (const attachment of (await readMessage(source)).attachments) {
      const text = textOf(attachment);
      await output.line({ ...attachment, text }, () => attachmentLine(attachment, text));
    }
    return;
  }
  const folder = path.resolve(environment.cwd, saveTo);
  const { saved, missing, failure } = await saveAttachments(folder, source);
  for (const attachment of saved) {
    await output.line(
      { ...attachment, text: textOf(attachment) },
      () => `${attachmentLine(attachment, null)}  ->  ${attachment.savedAs}`,
    );
  }
  if (missing.length > 0) {
    const names = missing.map(
      ({ number, filename }) => `${number} ${terminalLine(filename ?? '(no name)')}`,
    );
    notices.warn(`Not saved: ${names.join(', ')}.`);
  }
  if (failure !== null) throw failure;
}

type TextState = Omit<AttachmentTextState, 'number' | 'filename'>;

/** Returns the state of each attachment's text, keyed by attachment number. Images, for example, have none. */
function textStates({ catalog }: Reader, id: string): ReadonlyMap<number, TextState> {
  const docid = catalog.messages.docidOf(id);
  const states = docid === undefined ? [] : catalog.attachments.ofMessage(docid);
  return new Map(states.map(({ number, filename: _, ...state }) => [number, state]));
}

export function attachmentLine(attachment: ExtractedAttachment, text: TextState | null): string {
  const { number, filename, contentType, size } = attachment;
  const line = `${number}  ${terminalLine(filename ?? '(no name)')}  ${terminalLine(contentType)}, ${bytes(size)}`;
  if (text === null || text.status === 'done') return line;
  const yet = text.status === 'pending' ? ' yet' : '';
  const attempts = text.attempts === 0 ? '' : `, ${counted(text.attempts, 'attempt')}`;
  return `${line}  (not searchable${yet}${text.reason === null ? '' : `: ${text.reason}${attempts}`})`;
}

/**
 * Saves a message's attachments into a folder under safe, unused names, reading the source once. Creates a missing
 * folder with mode 0700. On failure, keeps complete attachments and removes partial ones. Returns attachments that were
 * not saved as `missing`, and any read or write error as `failure`.
 * @throws usage-save-failed for the folder
 */
export async function saveAttachments(folder: string, source: AsyncIterable<Uint8Array>) {
  const taken = new Set<string>();
  try {
    // Mail is private, so the folder and files are too, regardless of the umask.
    makeFolders(folder, 0o700);
    for (const name of readdirSync(folder)) safeFileName(name, { fallback: 'x', taken });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw saveFailed(folder, error);
    throw usageError('usage-save-failed', { file: folder, reason: 'not-a-folder' }, error);
  }
  const files = new Map<number, SavedFile>();
  const open = new Set<SavedFile>();
  let failure: unknown = null;
  try {
    for await (const piece of openAttachments(source)) {
      if ('attachment' in piece)
        files.set(piece.attachment.number, new SavedFile(piece.attachment));
      const file = files.get('attachment' in piece ? piece.attachment.number : piece.number);
      if (file === undefined || file.failure !== null) continue;
      try {
        if ('attachment' in piece) await file.create(folder, taken);
        else if ('bytes' in piece) await file.append(piece.bytes);
        else {
          await file.close();
          file.isComplete = true;
        }
      } catch (error) {
        file.failure = saveFailed(file.path, error);
        await file.remove();
      }
      await keepFewOpen(open, file);
    }
  } catch (error) {
    failure = error;
  }
  const all = [...files.values()];
  for (const file of all) if (!file.isComplete) await file.remove();
  return {
    saved: all
      .filter(({ isComplete }) => isComplete)
      .map(({ attachment, size, path: savedAs }) => ({ ...attachment, size, savedAs })),
    missing: all.filter(({ isComplete }) => !isComplete).map(({ attachment }) => attachment),
    failure: failure ?? all.find((file) => file.failure !== null)?.failure ?? null,
  };
}

class SavedFile {
  path = '';
  size = 0;
  isComplete = false;
  failure: unknown = null;
  handle: FileHandle | null = null;

  constructor(readonly attachment: Omit<ExtractedAttachment, 'size'>) {}

  /** Creates the file under the first free name. Does not follow links or overwrite files. */
  async create(folder: string, taken: Set<string>): Promise<void> {
    const { number, filename } = this.attachment;
    while (this.handle === null) {
      const name = safeFileName(filename, { fallback: `attachment-${number}`, taken });
      const target = path.join(folder, name);
      try {
        this.handle = await open(target, 'wx', 0o600);
        this.path = target;
      } catch (error) {
        if (errnoOf(error) !== 'EEXIST') throw saveFailed(target, error);
      }
    }
  }

  async append(bytes: Uint8Array): Promise<void> {
    // If a link has replaced the file, reopening must not follow it.
    this.handle ??= await open(this.path, constants.O_WRONLY | constants.O_APPEND | NO_FOLLOW);
    await this.handle.writeFile(bytes);
    this.size += bytes.byteLength;
  }

  async close(): Promise<void> {
    const { handle } = this;
    this.handle = null;
    await handle?.close();
  }

  async remove(): Promise<void> {
    await this.close().catch(() => undefined);
    if (this.path !== '') await rm(this.path, { force: true });
  }
}

/** Undefined on Windows. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;

/** Maximum number of open files. Many attachments can start before the first one ends. */
const OPEN_FILES = 16;

/** Closes the least recently used file if too many are open. `open` is sorted by last use. */
async function keepFewOpen(open: Set<SavedFile>, used: SavedFile): Promise<void> {
  open.delete(used);
  if (used.handle !== null) open.add(used);
  const [oldest] = open;
  if (open.size <= OPEN_FILES || oldest === undefined) return;
  open.delete(oldest);
  await oldest.close();
}

function saveFailed(file: string, error: unknown): unknown {
  const reason = errnoOf(error);
  return reason === undefined ? error : usageError('usage-save-failed', { file, reason });
}
