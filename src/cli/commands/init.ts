import type { Command } from 'commander';
import type { Body } from '../command-file.ts';

interface InitOptions {
  readonly baseUrl?: string;
  readonly tokenEnv?: string;
  readonly tokenFile?: string;
  readonly yes?: boolean;
}

const HELP = `
Asks for what is missing where there is a terminal; elsewhere everything must be given, and the token
comes on standard input or by --token-env or --token-file. The token is checked with the service before
anything is written. The configuration goes to ./config.json, or where --config says, and the token to a
file beside it, both readable by you alone. No file is ever overwritten.

EXAMPLES
  mailkeep init
  mailkeep init --base-url https://mail-api.example.com --data ~/mail --yes <token.txt
  mailkeep init --base-url https://mail-api.example.com --token-env MAIL_TOKEN --yes`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--base-url <url>', 'address of the mail service')
    .option('--token-env <name>', 'environment variable that holds the token')
    .option('--token-file <file>', 'file that holds the token')
    .option('--yes', 'write without asking')
    .addHelpText('after', HELP)
    .action((options: InitOptions) =>
      chosen(async (context) => {
        const { initialise } = await import('../setup/initialise.ts');
        return initialise(context, {
          baseUrl: options.baseUrl,
          tokenEnv: options.tokenEnv,
          tokenFile: options.tokenFile,
          yes: options.yes ?? false,
        });
      }),
    );
}
