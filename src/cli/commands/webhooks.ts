import { type Command, Option } from 'commander';
import { usageError } from '../../errors/usage.ts';
import { nearest } from '../../names/nearest.ts';
import type { Body } from '../command-file.ts';
import { EXIT_STATUS_HELP } from '../exit-codes.ts';
import { wholeNumber } from '../option-values.ts';

type Status = 'active' | 'paused' | 'disabled';
interface Line {
  readonly mailbox?: string;
  readonly account?: string;
  readonly yes?: boolean;
  readonly status?: Status;
  readonly limit?: number;
}
interface CreateLine {
  readonly mailbox: string;
  readonly url?: string;
  readonly name: string;
  readonly account?: string;
  readonly test: boolean;
}

const HELP = `
Webhooks tell an address of yours that mail arrived. They are listed and changed over the platform surface
where the configuration has accounts[].platform, else over the mailbox surface; the log needs the platform.
Webhooks are named by their ids or the beginnings of ids; without any, --mailbox stands for all of a mailbox.
"list" shows a webhook as failing when its last deliveries failed, which the platform surface reports.

A secret is shown by nothing here. "create" stores it in the archive's folder, in webhooks/<id>.json (0600).

EXAMPLES
  mailkeep webhooks list
  mailkeep webhooks create --mailbox anna@example.org --url https://hooks.example.org/mail
  mailkeep webhooks test 01981c3a
  mailkeep webhooks pause --mailbox anna@example.org
  mailkeep webhooks log --limit 20
  mailkeep webhooks delete 01981c3a --yes`;

const ACTS = [
  ['test', 'send one test delivery; ends with 1 when it fails'],
  ['pause', 'deliver nothing until it is resumed'],
  ['resume', 'deliver again'],
  ['delete', 'delete for good; asks, or needs --yes'],
] as const;
const NAMES = ['list', 'create', ...ACTS.map(([name]) => name), 'log'];

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
  for (const [act, summary] of ACTS) {
    const acting = sub(command, act, summary)
      .argument('[id...]', 'ids of webhooks, or their beginnings')
      .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)');
    if (act === 'delete') acting.option('--yes', 'delete without asking');
    acting.action((ids: string[], { mailbox, account, yes = false }: Line) =>
      chosen(async (context) => {
        const { actOnWebhooks } = await import('../webhooks/act.ts');
        return actOnWebhooks(context, { act, ids, mailbox, account, yes });
      }),
    );
  }
  sub(command, 'log', 'what became of deliveries, as the service recorded it')
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .option('--limit <n>', 'how many entries to print', wholeNumber(1, 1_000_000), 50)
    .action(({ mailbox, account, limit = 50 }: Line) =>
      chosen(async (context) => {
        const { showDeliveryLog } = await import('../webhooks/log.ts');
        return showDeliveryLog(context, { mailbox, account, limit });
      }),
    );
}

function sub(command: Command, name: string, summary: string): Command {
  return command
    .command(name)
    .summary(summary)
    .description(summary)
    .helpOption('-h, --help', 'print help')
    .configureHelp({ showGlobalOptions: true })
    .option('--account <name>', 'the account of the configuration, where there are several')
    .addHelpText('after', EXIT_STATUS_HELP);
}

function defineList(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .addOption(
      new Option('--status <status>', 'of this status only').choices([
        'active',
        'paused',
        'disabled',
      ]),
    )
    .action(({ mailbox, account, status }: Line) =>
      chosen(async (context) => {
        const { listWebhooks } = await import('../webhooks/list.ts');
        return listWebhooks(context, { mailbox, account, status });
      }),
    );
}

function defineCreate(command: Command, chosen: (body: Body) => void): void {
  command
    .requiredOption('--mailbox <mailbox>', 'the mailbox to tell of (address or resource id)')
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'a name to know it by', 'mailkeep')
    .option('--no-test', 'send no test delivery')
    .action(({ mailbox, url, name, account, test }: CreateLine) =>
      chosen(async (context) => {
        const { createWebhook } = await import('../webhooks/create.ts');
        return createWebhook(context, { mailbox, url, name, account, test });
      }),
    );
}

function unknownCommand(typed: string): Error {
  const meant = nearest(typed, NAMES);
  const listed = `The commands are ${NAMES.join(', ')}.`;
  const problem = `unknown command '${typed}'. ${meant === null ? listed : `Did you mean ${meant}?`}`;
  return usageError('usage-invalid', { command: 'webhooks', problem });
}
