import path from 'node:path';
import type { Command } from 'commander';
import type { AttachmentTextState } from '../../../catalog/attachment-texts.ts';
import { openReader, type Reader } from '../../../engine/archive/reader.ts';
import { EXIT } from '../../../errors/exit-codes.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { ExtractedAttachment } from '../../../mime/extraction.ts';
import { readMessage } from '../../../mime/reading.ts';
import { bytes } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { Body } from '../../context.ts';
import { oneMessage } from '../../unknown-names.ts';
import { saveAttachments } from './save-attachments.ts';

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
      chosen(async (context) => {
        const { output, notices, surroundings } = context;
        const reader = openReader(context);
        try {
          const id = oneMessage(reader, typed);
          const source = reader.sources().streamMessage(id);
          const texts = textStates(reader, id);
          if (options.save === undefined) {
            const { attachments } = await readMessage(source);
            for (const attachment of attachments) {
              const text = texts.get(attachment.number) ?? null;
              await output.line({ ...attachment, text }, () => attachmentLine(attachment, text));
            }
            return EXIT.done;
          }
          const folder = path.resolve(surroundings.cwd, options.save);
          const { saved, unreadable } = await saveAttachments(folder, source);
          for (const attachment of saved) {
            const text = texts.get(attachment.number) ?? null;
            await output.line(
              { ...attachment, text },
              () => `${attachmentLine(attachment, null)}  ->  ${attachment.savedAs}`,
            );
          }
          if (unreadable === null) return EXIT.done;
          notices.warn(sentenceOf(unreadable).message);
          return EXIT.failures;
        } finally {
          reader.close();
        }
      }),
    );
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
