import { type Command, Option } from 'commander';
import { usageError } from '../../../errors/usage.ts';
import { nearest } from '../../../names/nearest.ts';
import type { Body } from '../../context.ts';
import { collected, wholeNumber } from '../../option-values.ts';
import type { NewCommand } from './create.ts';
import type { ListCommand } from './list.ts';
import type { LogCommand } from './log.ts';

const STATUSES = ['active', 'paused', 'disabled'];
interface Line {
  readonly mailbox?: string;
  readonly account?: string;
  readonly yes?: boolean;
}
interface EnsureLine extends NewCommand {
  readonly mailbox?: readonly string[];
}
interface CreateLine extends NewCommand {
  readonly mailbox?: string;
  readonly all?: boolean;
}

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

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .usage(`<${NAMES.join('|')}> [options]`)
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      // Without one, the program asks for it.
      if (typed !== undefined) throw unknownCommand(typed);
    });
  defineList(sub(command, 'list', 'list webhooks'), chosen);
  defineCreate(
    sub(command, 'create', 'register a webhook, keep its secret in a file, and test it'),
    chosen,
  );
  defineEnsure(
    sub(
      command,
      'ensure',
      'one webhook for each mailbox: creates missing ones, resumes paused ones',
    ),
    chosen,
  );
  for (const [act, summary] of ACTS) {
    const acting = sub(command, act, summary)
      .argument('[id...]', 'ids of webhooks, or their beginnings')
      .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)');
    if (act === 'delete') acting.option('--yes', 'delete without asking');
    acting.action((ids: string[], options: Line) =>
      chosen(async (context) => {
        const { actOnWebhooks } = await import('./act.ts');
        return actOnWebhooks(context, { ...options, act, ids });
      }),
    );
  }
  sub(command, 'log', 'what became of deliveries, as the service recorded it')
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .option('--limit <n>', 'how many entries to print', wholeNumber(1, 1_000_000), 50)
    .action((options: LogCommand) =>
      chosen(async (context) => {
        const { showDeliveryLog } = await import('./log.ts');
        return showDeliveryLog(context, options);
      }),
    );
}

function sub(command: Command, name: string, summary: string): Command {
  return command
    .command(name)
    .summary(summary)
    .description(summary)
    .option('--account <name>', 'the account of the configuration, where there are several');
}

function defineList(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .addOption(new Option('--status <status>', 'of this status only').choices(STATUSES))
    .action((options: ListCommand) =>
      chosen(async (context) => {
        const { listWebhooks } = await import('./list.ts');
        return listWebhooks(context, options);
      }),
    );
}

function defineCreate(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <mailbox>', 'the mailbox whose new mail it reports (address or resource id)')
    .option('--all', 'one for each mailbox that the configuration mirrors and that has none')
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of the webhook', 'mailkeep')
    .option('--no-test', 'send no test delivery')
    .action(({ mailbox, all = false, ...options }: CreateLine) =>
      chosen(async (context) => {
        if ((mailbox === undefined) !== all) {
          const problem = 'give either --mailbox, or --all for each mailbox that is mirrored.';
          throw usageError('usage-invalid', { command: 'webhooks create', problem });
        }
        if (mailbox === undefined) {
          const { ensureWebhooks } = await import('./ensure.ts');
          return ensureWebhooks(context, { ...options, mailboxes: [], createOnly: true });
        }
        const { createWebhook } = await import('./create.ts');
        return createWebhook(context, { ...options, mailbox });
      }),
    );
}

const ENSURE_HELP = `
Creates a webhook of ours for each mailbox that has none at the address, including those that the service lost. Webhooks
of ours that are paused or disabled are resumed. Other webhooks are listed and left alone. Working webhooks stay as they
are, so the command can be repeated. Ours are the webhooks whose secrets are stored in the archive's folder.

With --json there is one line for each webhook with "action": kept, resumed, created, failed or other.`;

function defineEnsure(command: Command, chosen: (body: Body) => void): void {
  command
    .option(
      '--mailbox <mailbox>',
      'for this mailbox only (address or resource id); repeatable',
      collected,
    )
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of new webhooks', 'mailkeep')
    .option('--no-test', 'send no test delivery with the first that is created')
    .addHelpText('after', ENSURE_HELP)
    .action(({ mailbox: mailboxes = [], ...options }: EnsureLine) =>
      chosen(async (context) => {
        const { ensureWebhooks } = await import('./ensure.ts');
        return ensureWebhooks(context, { ...options, mailboxes, createOnly: false });
      }),
    );
}

function unknownCommand(typed: string): Error {
  const meant = nearest(typed, NAMES);
  const listed = `The commands are ${NAMES.join(', ')}.`;
  const problem = `unknown command '${typed}'. ${meant === null ? listed : `Did you mean ${meant}?`}`;
  return usageError('usage-invalid', { command: 'webhooks', problem });
}
