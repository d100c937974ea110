import { Writable } from 'node:stream';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { locateDataDir } from '../../../config/located-fields.ts';
import { requireArchive } from '../../../engine/archive/archive-folder.ts';
import { accountHosts } from '../../../engine/saved-searches.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { readState } from '../../../state/state-file.ts';
import { mcpServer } from '../../../web/mcp/server.ts';
import { ServedArchive } from '../../../web/reading/served-archive.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { mailboxKeys } from '../../mailbox-keys.ts';

/** Serves the archive over standard input and output until the input ends, or the command is interrupted. */
export async function serveMcp(
  context: CommandContext,
  addresses: readonly string[],
): Promise<ExitCode> {
  const { globals, surroundings, only, notices, output, now, signal } = context;
  const dataDir = only?.dataDir ?? locateDataDir(globals, surroundings);
  requireArchive(dataDir);
  const mailboxes = await mailboxKeys(context, addresses);
  const archive = new ServedArchive(dataDir, only?.segments);
  try {
    // A catalog that cannot be read is reported before anything is asked.
    archive.hold(mailboxes).release();
    const server = mcpServer(
      (asked, act) =>
        archive.use(mailboxes, async (reader) => {
          const state = readState(dataDir);
          try {
            return await act({
              ...{ reader, state, now: now(), spare: archive.spare, signal: asked },
              accounts: (node) => accountHosts(node, context),
            });
          } finally {
            state?.close();
          }
        }),
      (error) => notices.warn(`A tool could not be answered: ${sentenceOf(error).message}`),
    );
    const input = context.stdin();
    if (input.isTTY === true)
      notices.say(
        'Waiting for an assistant, which starts this command itself and writes to its input (docs/mcp.md). Ctrl-C stops it.',
      );
    const ended = new Promise<void>((resolve) => {
      for (const event of ['end', 'close'] as const) input.once(event, resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
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
  return EXIT.done;
}
