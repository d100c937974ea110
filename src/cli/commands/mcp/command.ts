import type { Command } from 'commander';
import type { Body } from '../../context.ts';
import { collected } from '../../option-values.ts';

interface McpLine {
  readonly mailbox?: string[];
}

const HELP = `
Speaks the Model Context Protocol over standard input and output, for an assistant on this machine that starts
it itself: it searches the archive, reads messages, conversations and the text of attachments, counts, and asks
how fresh the archive is. It only reads, and needs no configuration, account or network.

What senders of mail wrote is marked in every answer, invisible characters are shown, and links do not work. Mail
can still try to mislead an assistant: give it no other tools that could do harm (docs/mcp.md).

EXAMPLES
  mailkeep mcp
  mailkeep mcp --data /media/backup/archive --mailbox anna@example.org`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <address>', 'only this mailbox; repeatable', collected)
    .addHelpText('after', HELP)
    .action((options: McpLine) =>
      chosen(async (context) => {
        const { serveMcp } = await import('./serve.ts');
        return serveMcp(context, options.mailbox ?? []);
      }),
    );
}
