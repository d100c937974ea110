import path from 'node:path';
import type { Command } from 'commander';
import { terminalLine } from '../../mail/terminal-safe.ts';
import { readMessage } from '../../mime/reading.ts';
import { bytes } from '../amounts.ts';
import type { Body } from '../command-file.ts';
import { openReader } from '../compose/reader.ts';
import { EXIT } from '../exit-codes.ts';
import { oneMessage } from '../one-message.ts';
import { attachmentSaver } from '../save-attachments.ts';

const HELP = `
Lists the attachments of a message, or saves them. File names come from the sender: they are made safe, no
file is overwritten, and none is written outside the folder.

EXAMPLES
  mailkeep attachments 3f2a91c4
  mailkeep attachments 3f2a91c4 --save ~/Downloads`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .option('--save <dir>', 'save them all into this folder')
    .addHelpText('after', HELP)
    .action((typed: string, options: { readonly save?: string }) =>
      chosen(async (context) => {
        const { output, surroundings } = context;
        const reader = openReader(context);
        try {
          const id = oneMessage(reader, typed);
          const sources = reader.sources();
          const { attachments } = await readMessage(sources.streamMessage(id));
          const save =
            options.save === undefined
              ? undefined
              : attachmentSaver(path.resolve(surroundings.cwd, options.save), () =>
                  sources.streamMessage(id),
                );
          for (const attachment of attachments) {
            const { number, filename, contentType, size } = attachment;
            const line = `${number}  ${terminalLine(filename ?? '(no name)')}  ${terminalLine(contentType)}, ${bytes(size)}`;
            if (save === undefined) {
              await output.line(attachment, () => line);
              continue;
            }
            const savedAs = await save(attachment);
            await output.line({ ...attachment, savedAs }, () => `${line}  ->  ${savedAs}`);
          }
          return EXIT.done;
        } finally {
          reader.close();
        }
      }),
    );
}
