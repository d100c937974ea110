import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { locateConfig } from '../../../config/locate.ts';
import { DEFAULT_REQUESTS_PER_MINUTE, MOST_REQUESTS_PER_MINUTE } from '../../../config/rate.ts';
import type { ConfigInput } from '../../../config/schema.ts';
import { makeFolders } from '../../../disk/make-folders.ts';
import { configError } from '../../../errors/config.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { shellWord } from '../../../mail/terminal-safe.ts';
import { counted } from '../../../wording/amounts.ts';
import type { Body, CommandContext } from '../../context.ts';
import { wholeNumber } from '../../option-values.ts';
import { shownName } from '../../place-line.ts';
import { forecastText, timeText } from '../../progress/progress-text.ts';
import {
  type Answers,
  collectAnswers,
  firstSync,
  type InitOptions,
  type Reach,
} from './answers.ts';

const HELP = `
On a terminal, asks for whatever is missing, and asks again after an invalid answer. Elsewhere, everything must
be given as options; the token comes from standard input, --token-env or --token-file. The service
checks the token before init asks or writes anything else.

The first sync takes one request for each message: 50,000 messages take 14 hours at 60 requests a minute, the
default that init proposes. Ask your provider for the service's limit. When the service refuses requests,
mailkeep slows down, and "mailkeep status" shows the rate it learned. You can change
rateLimit.requestsPerMinute at any time.

The configuration is written to ./config.json or the file given with --config, and the token to a file next to
it. Only you can read them. No file is ever overwritten.

EXAMPLES
  mailkeep init
  mailkeep init --base-url https://mail-api.example.com --data ~/mail --yes <token.txt
  mailkeep init --base-url https://mail-api.example.com --token-env MAIL_TOKEN --yes`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--base-url <url>', 'address of the mail service')
    .option('--token-env <name>', 'environment variable that holds the token')
    .option('--token-file <file>', 'file that holds the token')
    .option(
      '--rate <n>',
      'maximum requests per minute (default: 60)',
      wholeNumber(1, MOST_REQUESTS_PER_MINUTE),
    )
    .option('--yes', 'write without asking')
    .addHelpText('after', HELP)
    .action((options: InitOptions) => chosen((context) => initialise(context, options)));
}

/** `mailkeep init`: asks, tries the token at the service, prints what the first sync takes, writes. */
async function initialise(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  const proposed = options.rate ?? DEFAULT_REQUESTS_PER_MINUTE;
  const { answers, asker } = await collectAnswers(context, options, (reach) => {
    context.notices.say(reachText(reach));
    context.notices.say(forecastText(firstSync(reach, proposed)));
  });
  const { reach, secret, requestsPerMinute } = answers;
  const ahead = firstSync(reach, requestsPerMinute);
  if (requestsPerMinute !== proposed) context.notices.say(timeText(ahead));
  if (asker !== undefined && options.yes !== true && !(await asker.yes(`Write ${answers.file}?`))) {
    context.notices.say('Nothing was written.');
    return EXIT.done;
  }
  if (answers.newTokenFile !== null) writeNewFile(answers.newTokenFile, `${secret.reveal()}\n`);
  writeNewFile(answers.file, `${JSON.stringify(configuration(answers), null, 2)}\n`);
  const { mailboxes, messages, requests, hours } = ahead;
  await context.output.object(
    {
      config: answers.file,
      tokenFile: answers.newTokenFile,
      dataDir: path.resolve(path.dirname(answers.file), answers.dataDir),
      mailboxes: reach,
      requestsPerMinute,
      firstSync: { mailboxes, folders: ahead.folders, messages, requests, hours },
    },
    () => closingText(answers, context),
  );
  return EXIT.done;
}

function reachText(reach: readonly Reach[]): string {
  const lines = reach.map(({ address, folders }) => {
    const messages = folders.reduce((sum, folder) => sum + folder.messages, 0);
    return `  ${shownName(address)}: ${counted(messages, 'message')} in ${counted(folders.length, 'folder')}`;
  });
  return [
    `The token is valid. It reaches ${counted(reach.length, 'mailbox', 'mailboxes')}:`,
    ...lines,
  ].join('\n');
}

function configuration(answers: Answers): ConfigInput {
  const { baseUrl, token, newTokenFile, dataDir, file, requestsPerMinute } = answers;
  const folder = path.dirname(file);
  const relativeToConfig = (target: string): string => {
    const relative = path.relative(folder, target);
    return relative.startsWith('..') || path.isAbsolute(relative) ? target : `./${relative}`;
  };
  return {
    dataDir,
    accounts: [
      {
        name: 'main',
        baseUrl,
        token:
          newTokenFile !== null
            ? { file: relativeToConfig(newTokenFile) }
            : token.kind === 'env'
              ? { env: token.name }
              : { file: relativeToConfig(token.name) },
      },
    ],
    ...(requestsPerMinute === DEFAULT_REQUESTS_PER_MINUTE
      ? {}
      : { rateLimit: { requestsPerMinute } }),
  };
}

function closingText(
  { file, newTokenFile }: Answers,
  { globals, surroundings }: CommandContext,
): string {
  const written = newTokenFile === null ? file : `${file} and ${newTokenFile}`;
  // Without the option, the next command would find another configuration, or none.
  const isFound = locateConfig(undefined, surroundings) === file;
  const option = globals.config === undefined || isFound ? '' : ` --config ${shellWord(file)}`;
  return `Written: ${written}.\nNow run "mailkeep sync${option}".`;
}

/**
 * Writes a file that did not exist, for its owner alone (0600), and makes it durable.
 *
 * @throws config-exists when there is one; usage-save-failed when it cannot be written
 */
function writeNewFile(file: string, text: string): void {
  try {
    makeFolders(path.dirname(file), 0o700);
    const descriptor = openSync(file, 'wx', 0o600);
    try {
      writeSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'EEXIST') throw configError('config-exists', { file });
    throw usageError('usage-save-failed', { file, reason });
  }
}
