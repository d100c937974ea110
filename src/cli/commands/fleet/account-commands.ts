import { type Command, Option } from 'commander';
import type { Body } from '../../context.ts';
import type { AccountLine, AddLine } from './account-lines.ts';
import { group, plainName, sub } from './sub-command.ts';

const HELP = `
An account is what an entry of "accounts" is in the configuration of a single machine: a token at a mail service, and
the mailboxes that it reaches. Each account has an archive of its own. Names are unique within a tenant, such as a
customer.

EXAMPLES
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account add ben --settings ben.json --token-file - < token
  mailkeep fleet account list --tenant acme
  mailkeep fleet account pause anna`;

const ADD_HELP = `
The settings are JSON like an entry of "accounts" in the configuration: baseUrl, token, mailboxes, folders, platform.
The token is read now, from where "token" says ({"env": NAME} or {"file": PATH}) or from --token-file or --token-env,
and stored encrypted by the first key of the file of keys; so are the token of "platform" and the secret of webhooks.

EXAMPLES
  echo '{"baseUrl": "https://mail-api.example.org"}' |
    mailkeep fleet account add anna --settings - --token-file anna.token`;

const NAMES = ['add', 'list', 'pause', 'resume', 'remove'];
const ACTS = [
  ['pause', 'let no node mirror an account until it is resumed'],
  ['resume', 'let the nodes mirror a paused or removed account again'],
  ['remove', 'take an account out of the fleet; its mail stays in registry and bucket'],
] as const;

/** Declares `mailkeep fleet account` and the commands below it. */
export function defineAccounts(fleet: Command, chosen: (body: Body) => void): void {
  const account = sub(fleet, 'account', 'add, list, pause and remove accounts');
  group(account, 'fleet account', NAMES).addHelpText('after', HELP);
  withTenant(sub(account, 'add', 'add an account, with its token'), 'its tenant (default: default)')
    .argument('<name>', 'what the account is called')
    .requiredOption('--settings <file>', 'its settings; - for standard input')
    .option('--token-file <file>', 'the token is in this file; - for standard input')
    .addOption(
      new Option('--token-env <name>', 'the token is in this environment variable').conflicts(
        'tokenFile',
      ),
    )
    .option('--webhook-secret-file <file>', 'the secret of its webhooks is in this file')
    .addOption(
      new Option(
        '--webhook-secret-env <name>',
        'the secret of its webhooks is in this environment variable',
      ).conflicts('webhookSecretFile'),
    )
    .addHelpText('after', ADD_HELP)
    .action((name: string, options: AddLine) =>
      chosen(async (context) => {
        const { addAccountCommand } = await import('./account-add.ts');
        return addAccountCommand(context, name, options);
      }),
    );
  withTenant(sub(account, 'list', 'list accounts: who holds them, and how fresh they are')).action(
    (options: AccountLine) =>
      chosen(async (context) => {
        const { listAccountsCommand } = await import('./account-list.ts');
        return listAccountsCommand(context, options);
      }),
  );
  for (const [act, summary] of ACTS) {
    withTenant(sub(account, act, summary))
      .argument('<name>', 'the account')
      .action((name: string, options: AccountLine) =>
        chosen(async (context) => {
          const { changeAccountCommand } = await import('./account-state.ts');
          return changeAccountCommand(context, act, name, options);
        }),
      );
  }
}

function withTenant(command: Command, description = 'of this tenant only'): Command {
  return command.option('--tenant <name>', description, plainName);
}
