import type { Command } from 'commander';
import type { Body } from '../command-file.ts';
import { EXIT } from '../exit-codes.ts';
import { collected, wholeNumber } from '../option-values.ts';

interface SandboxLine {
  readonly port?: number;
  readonly from?: string[];
  readonly seed?: number;
  readonly state?: string;
  readonly rpm?: number;
  readonly latency?: number;
}

const HELP = `
Serves the mail service's interface on this machine, on 127.0.0.1, until it is interrupted. Once it
listens, its first line says where, with which tokens and which mailboxes, as one JSON object. Needs no
configuration and touches no archive.

--from fills INBOX of the first mailbox: a folder with cur/ and new/ is a Maildir; any other folder is
walked, each file in it being one message byte for byte; a file ending in .mbox is an mbox; any other file
is one message. Without it there is generated mail, the same for the same --seed.

EXAMPLES
  mailkeep sandbox
  mailkeep sandbox --port 4010 --from ~/Maildir --rpm 120
  mailkeep sandbox --port 4010 --state service.sqlite`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option(
      '--port <n>',
      'port to listen on; 0 is any free one (default: 0)',
      wholeNumber(0, 65_535),
    )
    .option('--from <path>', 'mail to serve; may be given several times', collected)
    .option(
      '--seed <n>',
      'decides tokens, ids and generated mail (default: 1)',
      wholeNumber(0, 2 ** 31),
    )
    .option('--state <file>', 'keep everything in this SQLite file (default: in memory)')
    .option(
      '--rpm <n>',
      'requests a minute that a token may make (default: any number)',
      wholeNumber(1, 10_000_000),
    )
    .option(
      '--latency <ms>',
      'hold every answer back so long (default: 0)',
      wholeNumber(0, 600_000),
    )
    .addHelpText('after', HELP)
    .action((options: SandboxLine) =>
      chosen(async ({ output, notices, signal }) => {
        const { startSandbox } = await import('../../service/sandbox.ts');
        const sandbox = await startSandbox({
          ...(options.port === undefined ? {} : { port: options.port }),
          ...(options.from === undefined ? {} : { from: options.from }),
          ...(options.seed === undefined ? {} : { seed: options.seed }),
          ...(options.state === undefined ? {} : { stateFile: options.state }),
          settings: {
            ...(options.rpm === undefined ? {} : { requestsPerMinute: options.rpm }),
            ...(options.latency === undefined ? {} : { latencyMs: options.latency }),
          },
          report: (error) => notices.warn(`the sandbox failed to answer: ${String(error)}`),
        });
        try {
          const { mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes } = sandbox;
          await output.text(JSON.stringify({ mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes }));
          await aborted(signal);
        } finally {
          await sandbox.close();
        }
        return EXIT.done;
      }),
    );
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
