import type { Command } from 'commander';
import { terminalLine, terminalSafe } from '../../mail/terminal-safe.ts';
import { readMessage } from '../../mime/reading.ts';
import type { Body } from '../command-file.ts';
import { openReader } from '../compose/reader.ts';
import { EXIT } from '../exit-codes.ts';
import { messageText } from '../message-text.ts';
import { oneMessage } from '../one-message.ts';

interface ShowLine {
  readonly raw?: boolean;
  readonly headers?: boolean;
  readonly html?: boolean;
}

const HELP = `
Shows a message for reading: headers, text (HTML as text, links visible), attachments. ID is as list and
search print it; the first characters are enough when no other id begins so.

--raw writes the source exactly as the service gave it, byte for byte.

--html writes the message's HTML as a page that is safe to open: no scripts, no forms, no remote pictures,
nothing that calls home. Nothing, with a word on standard error, where there is no HTML. The HTML as its
sender wrote it is in the source (--raw).

EXAMPLES
  mailkeep show 3f2a91c4
  mailkeep show 3f2a91c4 --headers
  mailkeep show 3f2a91c4 --raw >message.eml
  mailkeep show 3f2a91c4 --html >message.html`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .option('--raw', 'the exact source')
    .option('--headers', 'the header fields only, decoded')
    .option('--html', 'the HTML as a page that is safe to open')
    .addHelpText('after', HELP)
    .action((typed: string, options: ShowLine) =>
      chosen(async (context) => {
        const { output, notices } = context;
        const reader = openReader(context);
        try {
          const id = oneMessage(reader, typed);
          if (options.raw === true) {
            for await (const piece of reader.sources().streamMessage(id)) await output.bytes(piece);
            return EXIT.done;
          }
          const reading = await readMessage(reader.sources().streamMessage(id));
          if (options.headers === true) {
            const { headers } = reading;
            await output.object({ id, headers }, () =>
              headers
                .map(({ name, value }) => `${terminalLine(name)}: ${terminalLine(value)}`)
                .join('\n'),
            );
            return EXIT.done;
          }
          if (options.html === true) {
            const { safeHtml } = await import('../../mime/safe-html.ts');
            const html = reading.html === null ? null : safeHtml(reading.html);
            if (html === null) notices.warn(`message ${id.slice(0, 12)} has no HTML`);
            if (html !== null || output.json) {
              await output.object({ id, html }, () => terminalSafe(html ?? ''));
            }
            return EXIT.done;
          }
          const size = reader.sources().sizeOf(id);
          const { html: _html, ...shown } = reading;
          await output.object({ id, size, ...shown }, () =>
            messageText(id, reading, output.colours),
          );
          return EXIT.done;
        } finally {
          reader.close();
        }
      }),
    );
}
