import { type Register, untilInterrupted, type Values } from '../context.ts';
import { collect, recipients, wholeNumber, withoutUndefined } from '../option-values.ts';

type SandboxLine = Values<'state'> &
  Values<'from' | 'allow', string[]> &
  Values<
    'port' | 'seed' | 'rpm' | 'latency' | 'webhookTimeout' | 'webhookRetry' | 'webhookRetries',
    number
  >;

const HELP = `
Serves the mail service's interface on this machine, on 127.0.0.1, until it is interrupted. Once it listens,
it prints its addresses, tokens and mailboxes as one JSON object on the first line. It needs no configuration
and touches no archive.

"control" in that line is an endpoint with its own token: deliver mail from outside, inject faults, issue and
revoke tokens, suspend a mailbox, count requests. docs/sandbox.md documents its requests.

--from fills INBOX of the first mailbox: a folder with cur/ and new/ is a Maildir; any other folder is walked,
and each file in it is one message, byte for byte; a file ending in .mbox is an mbox; any other file is one
message. Without --from the mail is generated, and is the same for the same --seed.

EXAMPLES
  mailkeep sandbox
  mailkeep sandbox --port 4010 --from ~/Maildir --rpm 120
  mailkeep sandbox --port 4010 --state service.sqlite
  mailkeep sandbox --allow @example.org --allow bea@example.net
  mailkeep sandbox --webhook-retry 100 --webhook-retries 2`;

export const register: Register = (command, run) => {
  command
    .option(
      '--port <n>',
      'port to listen on; 0 is any free one (default: 0)',
      wholeNumber(0, 65_535),
    )
    .option('--from <path>', 'mail to serve; repeatable', collect)
    .option(
      '--seed <n>',
      'decides tokens, ids and generated mail (default: 1)',
      wholeNumber(0, 2 ** 31),
    )
    .option('--state <file>', 'keep everything in this SQLite file (default: in memory)')
    .option(
      '--rpm <n>',
      'requests a minute for each token; clients that keep exceeding it are blocked (default: no limit)',
      wholeNumber(1, 10_000_000),
    )
    .option('--latency <ms>', 'delay of every answer (default: 0)', wholeNumber(0, 600_000))
    .option(
      '--allow <recipient>',
      'send mail only to this address or @domain; repeatable (default: to all)',
      recipients,
    )
    .option(
      '--webhook-timeout <ms>',
      'how long a delivery to a webhook may take (default: 10000)',
      wholeNumber(1, 600_000),
    )
    .option(
      '--webhook-retry <ms>',
      'wait before the first retry of a delivery, doubled for each further one (default: 1000)',
      wholeNumber(1, 600_000),
    )
    .option(
      '--webhook-retries <n>',
      'retries of a failed delivery (default: 5)',
      wholeNumber(0, 100),
    )
    .addHelpText('after', HELP)
    .action((options: SandboxLine) =>
      run(async ({ output, notices, signal }) => {
        const { startSandbox } = await import('../../sandbox/sandbox.ts');
        const { port, from, seed, state: stateFile, webhookRetries: retries } = options;
        const sandbox = await startSandbox({
          ...withoutUndefined({ port, from, seed, stateFile }),
          settings: withoutUndefined({
            requestsPerMinute: options.rpm,
            latencyMs: options.latency,
            outgoingAllowList: options.allow,
            webhookTimeoutMs: options.webhookTimeout,
            webhookFirstRetryMs: options.webhookRetry,
            webhookAttempts: retries === undefined ? undefined : retries + 1,
          }),
          report: (error) => notices.warn(`the sandbox failed to answer: ${String(error)}`),
        });
        try {
          const { mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes, control } = sandbox;
          await output.text(
            JSON.stringify({ mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes, control }),
          );
          await untilInterrupted(signal);
        } finally {
          await sandbox.close();
        }
      }),
    );
};
