import type { Command } from 'commander';
import { MOST_REQUESTS_PER_MINUTE } from '../../../config/rate.ts';
import type { Body } from '../../context.ts';
import { wholeNumber } from '../../option-values.ts';

interface InitOptions {
  readonly baseUrl?: string;
  readonly tokenEnv?: string;
  readonly tokenFile?: string;
  readonly rate?: number;
  readonly yes?: boolean;
}

const HELP = `
On a terminal, asks for whatever is missing, and asks again after an invalid answer. Elsewhere, everything must
be given as options; the token comes from standard input, --token-env or --token-file. The token is tried at
the service before anything else is asked or written.

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
      'most requests a minute (default: 60)',
      wholeNumber(1, MOST_REQUESTS_PER_MINUTE),
    )
    .option('--yes', 'write without asking')
    .addHelpText('after', HELP)
    .action((options: InitOptions) =>
      chosen(async (context) => {
        const { initialise } = await import('./initialise.ts');
        return initialise(context, {
          baseUrl: options.baseUrl,
          tokenEnv: options.tokenEnv,
          tokenFile: options.tokenFile,
          rate: options.rate,
          yes: options.yes ?? false,
        });
      }),
    );
}
