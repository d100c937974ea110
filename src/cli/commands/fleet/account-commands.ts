import { type Command, Option } from 'commander';
import type { RunCommand } from '../../context.ts';
import type { AccountLine, AddLine, ImportLine } from './account-lines.ts';
import { group, plainName, sub } from './sub-command.ts';

const HELP = `
An account is what an entry of "accounts" is in the configuration of a single machine: a token at a mail service, and
the mailboxes that it reaches. Each account has an archive of its own. Names are unique within a tenant, such as a
customer.

EXAMPLES
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account add ben --settings ben.json --token-file - < token
  mailkeep fleet account list --tenant acme
  mailkeep fleet account pause anna
  mailkeep fleet account resume anna
  mailkeep fleet account remove anna`;

const ADD_HELP = `
The settings are JSON like an entry of "accounts" in the configuration: baseUrl, token, mailboxes, folders, platform.
The token is read now, from where "token" says ({"env": NAME} or {"file": PATH}) or from --token-file or --token-env,
and stored encrypted by the first key of the file of keys; so are the token of "platform" and the secret of webhooks.

EXAMPLES
  echo '{"baseUrl": "https://mail-api.example.org"}' |
    mailkeep fleet account add anna --settings - --token-file anna.token`;

const IMPORT_HELP = `
Copies the archive in --data, which a sync or daemon of this machine has made, into the fleet: its segments are uploaded
and read back, commits that are not sealed yet go to PostgreSQL, and at last the account becomes one that any node may
take. Until then its state is "importing", and no node takes it. The archive is locked and only read; nothing may write to
it meanwhile, and no sync or daemon should use it afterwards: both would mirror the mailbox, and the archives diverge.

Settings and token come from --settings, as for "fleet account add", or from the account of that name in a configuration
(by default, in this one). Every byte is verified; an archive that is damaged, has a forget that was interrupted, or was
made by a newer version is refused. So is one that the fleet has already.

An interrupted import is continued by the same command, which keeps what was uploaded. --abort, or "fleet account remove",
calls it off: what was uploaded is deleted.

EXAMPLES
  mailkeep fleet import --data /var/lib/mailkeep/anna --account anna --tenant acme --settings config.json
  mailkeep fleet import --account anna --tenant acme --abort`;

const NAMES = ['add', 'list', 'pause', 'resume', 'remove'];
const ACTS = [
  ['pause', 'let no node mirror an account until it is resumed'],
  ['resume', 'let the nodes mirror a paused or removed account again'],
  ['remove', 'take an account out of the fleet; its mail stays in registry and bucket'],
] as const;

const OWN_TENANT = 'its tenant (default: default)';

/** Declares `mailkeep fleet import`. */
export function defineImport(fleet: Command, run: (body: RunCommand) => void): void {
  const command = sub(fleet, 'import', 'copy an archive of this machine into the fleet')
    .requiredOption('--account <name>', 'what the account is called')
    .option('--settings <file>', 'its settings, or a configuration that has the account')
    .option('--abort', 'call off an import that was interrupted');
  withTenant(withSecrets(command), OWN_TENANT)
    .addHelpText('after', IMPORT_HELP)
    .action((options: ImportLine) =>
      run(async (context) => {
        const { importCommand } = await import('./import.ts');
        return importCommand(context, options);
      }),
    );
}

/** Declares `mailkeep fleet account` and the commands below it. */
export function defineAccounts(fleet: Command, run: (body: RunCommand) => void): void {
  const account = sub(fleet, 'account', 'add, list, pause and remove accounts');
  group(account, 'fleet account', NAMES).addHelpText('after', HELP);
  const add = sub(account, 'add', 'add an account, with its token')
    .argument('<name>', 'what the account is called')
    .requiredOption('--settings <file>', 'its settings; - for standard input');
  withTenant(withSecrets(add), OWN_TENANT)
    .addHelpText('after', ADD_HELP)
    .action((name: string, options: AddLine) =>
      run(async (context) => {
        const { addAccountCommand } = await import('./account-add.ts');
        return addAccountCommand(context, name, options);
      }),
    );
  withTenant(sub(account, 'list', 'list accounts: who holds them, and how fresh they are')).action(
    (options: AccountLine) =>
      run(async (context) => {
        const { listAccountsCommand } = await import('./account-list.ts');
        return listAccountsCommand(context, options);
      }),
  );
  for (const [act, summary] of ACTS) {
    withTenant(sub(account, act, summary))
      .argument('<name>', 'the account')
      .action((name: string, options: AccountLine) =>
        run(async (context) => {
          const { changeAccountCommand } = await import('./account-state.ts');
          return changeAccountCommand(context, act, name, options);
        }),
      );
  }
}

/** Adds the options that name where secrets are. */
function withSecrets(command: Command): Command {
  return command
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
    );
}

function withTenant(command: Command, description = 'of this tenant only'): Command {
  return command.option('--tenant <name>', description, plainName);
}
