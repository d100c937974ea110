import { Writable } from 'node:stream';
import { locateDataDir } from '../../core/config-locate.ts';
import { describeError } from '../../core/errors.ts';
import {
  action,
  type CommandContext,
  type Register,
  untilInterrupted,
  type Values,
} from '../context.ts';
import { collect } from '../option-values.ts';

const HELP = `
Speaks the Model Context Protocol over standard input and output, for an assistant on this machine that starts
it itself: it searches the archive, reads messages, conversations and the text of attachments, counts, and asks
how fresh the archive is. It only reads, and needs no configuration, account or network.

What senders of mail wrote is marked in every answer, invisible characters are shown, and links do not work. Mail
can still try to mislead an assistant: give it no other tools that could do harm (docs/mcp.md).

EXAMPLES
  mailkeep mcp
  mailkeep mcp --data /media/backup/archive --mailbox anna@example.org`;

export const register: Register = (command, run) => {
  command
    .option('--mailbox <address>', 'only this mailbox; repeatable', collect)
    .addHelpText('after', HELP)
    .action(action(run, serveMcp));
};

async function serveMcp(
  context: CommandContext,
  { mailbox: addresses = [] }: Values<'mailbox', string[]>,
): Promise<void> {
  const { StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const { requireArchive } = await import('../../archive/file-system.ts');
  const { accountHosts } = await import('../../catalog/saved-searches.ts');
  const { mcpServer } = await import('../../web/mcp-server.ts');
  const { ServedArchive } = await import('../../web/served-archive.ts');
  const { mailboxKeys, withState } = await import('../archive.ts');
  // Errors may come from threads. Loaded now, because a later failure would end the server.
  await import('../all-errors.ts');
  const { globals, environment, notices, output, now, signal } = context;
  const dataDir = locateDataDir(globals, environment);
  requireArchive(dataDir);
  const mailboxes = await mailboxKeys(context, addresses);
  const archive = new ServedArchive(dataDir);
  try {
    // Reports an unreadable catalog now rather than at the first request.
    archive.hold(mailboxes).release();
    const server = mcpServer(
      (asked, act) =>
        archive.use(mailboxes, (reader) =>
          withState(dataDir, (state) =>
            act({
              ...{ reader, state, now: now(), spare: archive.spare, signal: asked },
              accounts: (node) => accountHosts(node, context),
            }),
          ),
        ),
      (error) => notices.warn(`A tool could not be answered: ${describeError(error).message}`),
    );
    const input = context.stdin();
    if (input.isTTY === true)
      notices.say(
        'Waiting for an assistant, which starts this command itself and writes to its input (docs/mcp.md). Ctrl-C stops it.',
      );
    const ended = new Promise<void>((resolve) => {
      for (const event of ['end', 'close'] as const) input.once(event, resolve);
      void untilInterrupted(signal).then(resolve);
    });
    const answers = new Writable({
      write(chunk: Uint8Array, _encoding, done) {
        output.bytes(chunk).then(() => done(), done);
      },
    });
    await server.connect(new StdioServerTransport(input, answers));
    await ended;
    await server.close();
    await output.written();
  } finally {
    await archive.close();
  }
}
