import { type Command, Option } from 'commander';
import type { Reader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { terminalLine, terminalSafe } from '../../../mail/terminal-safe.ts';
import type { MessageId } from '../../../mail/words.ts';
import { readMessage, readPage } from '../../../mime/reading.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';
import { messageJson, messageText, printPaged, showThread } from './print-messages.ts';

interface ShowLine {
  readonly raw?: boolean;
  readonly headers?: boolean;
  readonly html?: boolean;
  readonly thread?: boolean;
  readonly pager: boolean;
}

const HELP = `
Shows a message for reading: headers, text (HTML as text, links visible), attachments. ID is an id from list
or search; its first characters are enough if no other id begins with them.

On a terminal the output goes through a pager: MAILKEEP_PAGER or PAGER, otherwise less -FRX.

--raw writes the source exactly as the service gave it, byte for byte.
--html writes the message's HTML as a page that is safe to open: no scripts, no forms, no remote pictures,
nothing that contacts the sender. Pictures included in the message are embedded. A message without HTML prints
nothing but a note on standard error. The HTML as its sender wrote it is in the source (--raw).

EXAMPLES
  mailkeep show 3f2a91c4
  mailkeep show 3f2a91c4 --headers
  mailkeep show 3f2a91c4 --thread
  mailkeep show 3f2a91c4 --raw >message.eml
  mailkeep show 3f2a91c4 --html >message.html`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .addOption(new Option('--raw', 'the exact source').conflicts(['headers', 'html']))
    .addOption(new Option('--headers', 'the header fields only, decoded').conflicts('html'))
    .option('--html', 'the HTML as a page that is safe to open')
    .addOption(
      new Option('--thread', 'every message of its thread, oldest first').conflicts([
        'raw',
        'headers',
        'html',
      ]),
    )
    .option('--no-pager', 'print it all at once')
    .addHelpText('after', HELP)
    .action((typed: string, options: ShowLine) =>
      chosen((context) =>
        withReader(context, (reader) => {
          const id = oneMessage(reader, typed);
          if (options.thread === true) return showThread(context, reader, id, options);
          if (options.raw === true) return raw(context, reader, id);
          if (options.html === true) return html(context, reader, id);
          return (options.headers === true ? headers : message)(context, reader, id, options);
        }),
      ),
    );
}

async function raw({ output }: CommandContext, reader: Reader, id: MessageId): Promise<ExitCode> {
  for await (const piece of reader.sources().streamMessage(id)) await output.bytes(piece);
  return EXIT.done;
}

async function html(
  { output, notices }: CommandContext,
  reader: Reader,
  id: MessageId,
): Promise<ExitCode> {
  const page = await readPage(reader.sources().streamMessage(id));
  if (page === null) notices.warn(`message ${id.slice(0, 12)} has no HTML`);
  if (page !== null || output.json) {
    await output.object({ id, html: page }, () => terminalSafe(page ?? ''));
  }
  return EXIT.done;
}

async function headers(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: ShowLine,
): Promise<ExitCode> {
  const { headers: fields } = await readMessage(reader.sources().streamMessage(id));
  await printed(context, pager, { id, headers: fields }, () =>
    fields.map(({ name, value }) => `${terminalLine(name)}: ${terminalLine(value)}`).join('\n'),
  );
  return EXIT.done;
}

async function message(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: ShowLine,
): Promise<ExitCode> {
  const reading = await readMessage(reader.sources().streamMessage(id));
  await printed(context, pager, messageJson(reader, id, reading), () =>
    messageText(id, reading, context.output, context.globals.data),
  );
  return EXIT.done;
}

async function printed(
  context: CommandContext,
  pager: boolean,
  value: unknown,
  text: () => string,
): Promise<void> {
  if (pager && context.output.interactive) await printPaged(context, text());
  else await context.output.object(value, text);
}
