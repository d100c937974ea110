import path from 'node:path';
import { DEFAULT_REQUESTS_PER_MINUTE } from '../../../config/rate.ts';
import type { ConfigInput } from '../../../config/schema.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { counted } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { shownName } from '../../place-line.ts';
import { forecastText, timeText } from '../../progress/progress-text.ts';
import {
  type Answers,
  collectAnswers,
  firstSync,
  type InitOptions,
  type Reach,
} from './answers.ts';
import { writeNewFile } from './new-file.ts';

/** `mailkeep init`: asks, tries the token at the service, prints what the first sync takes, writes. */
export async function initialise(context: CommandContext, options: InitOptions): Promise<ExitCode> {
  const proposed = options.rate ?? DEFAULT_REQUESTS_PER_MINUTE;
  const { answers, asker } = await collectAnswers(context, options, (reach) => {
    context.notices.say(reachText(reach));
    context.notices.say(forecastText(firstSync(reach, proposed)));
  });
  const { reach, secret, requestsPerMinute } = answers;
  const ahead = firstSync(reach, requestsPerMinute);
  if (requestsPerMinute !== proposed) context.notices.say(timeText(ahead));
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
      requestsPerMinute,
      firstSync: { mailboxes, folders: ahead.folders, messages, requests, hours },
    },
    () => closingText(answers),
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

function closingText({ file, newTokenFile }: Answers): string {
  const written = newTokenFile === null ? file : `${file} and ${newTokenFile}`;
  return `Written: ${written}.\nNow run "mailkeep sync".`;
}
