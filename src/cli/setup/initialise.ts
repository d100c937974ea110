import path from 'node:path';
import type { ConfigInput } from '../../config/schema.ts';
import { readToken } from '../../config/token.ts';
import { type Forecast, forecast } from '../../sync/plan/forecast.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-codes.ts';
import { forecastText } from '../progress/forecast-text.ts';
import { shownName } from '../shown-name.ts';
import { type Answers, collectAnswers, type InitOptions } from './answers.ts';
import { writeNewFile } from './new-file.ts';
import { type Reach, reachOf } from './reach.ts';

/** `mailkeep init`: asks, checks the token with the service, tells what is ahead, writes. */
export async function initialise(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  const { answers, asker } = await collectAnswers(context, options);
  const secret = await readToken(answers.token, context.surroundings.env);
  const reach = await reachOf(context, answers, secret);
  const ahead = whatIsAhead(reach);
  context.notices.say(reachText(reach));
  context.notices.say(forecastText(ahead));
  if (asker !== undefined && !options.yes && !(await asker.yes(`Write ${answers.file}?`))) {
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
      firstSync: { mailboxes, folders: ahead.folders, messages, requests, hours },
    },
    () => closingText(answers),
  );
  return EXIT.done;
}

/** Requests per minute of a configuration that does not say otherwise. */
const DEFAULT_REQUESTS_PER_MINUTE = 60;

function whatIsAhead(reach: readonly Reach[]): Forecast {
  return forecast({
    mailboxes: reach.length,
    folders: reach.flatMap(({ folders }) =>
      folders.map(({ messages }) => ({ messages, known: 0 })),
    ),
    sizes: { count: 0, bytes: 0 },
    requestsPerMinute: DEFAULT_REQUESTS_PER_MINUTE,
  });
}

function reachText(reach: readonly Reach[]): string {
  const lines = reach.map(({ address, folders }) => {
    const messages = folders.reduce((sum, folder) => sum + folder.messages, 0);
    return `  ${shownName(address)}: ${counted(messages, 'message')} in ${counted(folders.length, 'folder')}`;
  });
  return [
    `The token is good. It reaches ${counted(reach.length, 'mailbox', 'mailboxes')}:`,
    ...lines,
  ].join('\n');
}

function configuration({ baseUrl, token, newTokenFile, dataDir, file }: Answers): ConfigInput {
  const folder = path.dirname(file);
  const beside = (target: string): string => {
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
            ? { file: beside(newTokenFile) }
            : token.kind === 'env'
              ? { env: token.name }
              : { file: beside(token.name) },
      },
    ],
  };
}

function closingText({ file, newTokenFile }: Answers): string {
  const written = newTokenFile === null ? file : `${file} and ${newTokenFile}`;
  return `Written: ${written}.\nNow run "mailkeep sync".`;
}
