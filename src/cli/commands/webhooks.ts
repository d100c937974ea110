import { Option } from 'commander';
import { nearest } from '../../core/names.ts';
import { invalidUsage, lazyAction, type Register, subCommand } from '../context.ts';
import { collect, wholeNumber } from '../option-values.ts';
import type { ActOptions } from './webhooks-actions.ts';

const HELP = `
Webhooks notify an address of yours about new mail. They are managed over the platform surface if the
configuration has accounts[].platform, otherwise over the mailbox surface; the log needs the platform surface.
Name webhooks by their ids or the beginnings of ids; without ids, --mailbox selects all webhooks of a mailbox.
"list" shows a webhook as failing when its last deliveries failed, which the platform surface reports.
No command prints a secret. "create" stores it in the archive's folder, in webhooks/<id>.json (0600).

EXAMPLES
  mailkeep webhooks list
  mailkeep webhooks create --mailbox anna@example.org --url https://hooks.example.org/mail
  mailkeep webhooks ensure                one for each mailbox; run it again whenever one may be missing
  mailkeep webhooks test 01981c3a
  mailkeep webhooks pause --mailbox anna@example.org
  mailkeep webhooks resume --mailbox anna@example.org
  mailkeep webhooks log --limit 20
  mailkeep webhooks delete 01981c3a --yes`;

const ACTS = [
  ['test', 'send one test delivery; ends with 1 when it fails'],
  ['pause', 'deliver nothing until it is resumed'],
  ['resume', 'deliver again'],
  ['delete', 'delete permanently; asks, or needs --yes'],
] as const;
const NAMES = ['list', 'create', 'ensure', ...ACTS.map(([name]) => name), 'log'];

const load = () => import('./webhooks-actions.ts');

export const register: Register = (command, run) => {
  command
    .usage(`<${NAMES.join('|')}> [options]`)
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      // Without a subcommand, the parser asks for one.
      if (typed !== undefined) throw unknownCommand(typed);
    });
  const sub = (name: string, summary: string) =>
    subCommand(command, name, summary).option(
      '--account <name>',
      'the account of the configuration, where there are several',
    );
  const ofMailbox = [
    '--mailbox <mailbox>',
    'of this mailbox only (address or resource id)',
  ] as const;
  sub('list', 'list webhooks')
    .option(...ofMailbox)
    .addOption(
      new Option('--status <status>', 'of this status only').choices([
        'active',
        'paused',
        'disabled',
      ]),
    )
    .action(lazyAction(run, async () => (await load()).listWebhooks));
  sub('create', 'register a webhook, keep its secret in a file, and test it')
    .option('--mailbox <mailbox>', 'the mailbox whose new mail it reports (address or resource id)')
    .option('--all', 'one for each mailbox that the configuration mirrors and that has none')
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of the webhook', 'mailkeep')
    .option('--no-test', 'send no test delivery')
    .action(lazyAction(run, async () => (await load()).createWebhook));
  sub('ensure', 'one webhook for each mailbox: creates missing ones, resumes paused ones')
    .option(
      '--mailbox <mailbox>',
      'for this mailbox only (address or resource id); repeatable',
      collect,
    )
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of new webhooks', 'mailkeep')
    .option('--no-test', 'send no test delivery with the first that is created')
    .addHelpText('after', ENSURE_HELP)
    .action(lazyAction(run, async () => (await load()).ensureWebhooks));
  for (const [act, summary] of ACTS) {
    const acting = sub(act, summary)
      .argument('[id...]', 'ids of webhooks, or their beginnings')
      .option(...ofMailbox);
    if (act === 'delete') acting.option('--yes', 'delete without asking');
    acting.action((ids: string[], options: ActOptions) =>
      run(async (context) => (await load()).actOnWebhooks(context, act, ids, options)),
    );
  }
  sub('log', 'what became of deliveries, as the service recorded it')
    .option(...ofMailbox)
    .option('--limit <n>', 'how many entries to print', wholeNumber(1, 1_000_000), 50)
    .action(lazyAction(run, async () => (await load()).showDeliveryLog));
};

const ENSURE_HELP = `
Creates a webhook of ours for each mailbox that has none at the address, including those that the service lost. Webhooks
of ours that are paused or disabled are resumed. Other webhooks are listed and left alone. Working webhooks stay as they
are, so the command can be repeated. Ours are the webhooks whose secrets are stored in the archive's folder.

With --json there is one line for each webhook with "action": kept, resumed, created, failed or other.`;

function unknownCommand(typed: string): Error {
  const meant = nearest(typed, NAMES);
  const hint = `The commands are ${NAMES.join(', ')}.`;
  const problem = `unknown command '${typed}'. ${meant === null ? hint : `Did you mean ${meant}?`}`;
  return invalidUsage('webhooks', problem);
}
