import { type Command, Option } from 'commander';
import type { Body } from '../../context.ts';
import { acknowledge, listQuarantine, type QuarantineChoice } from './list.ts';

const HELP = `
Lists messages that the service shows but that could not be fetched completely: one line each, with the reason
and since when. They block nothing, count as quarantined in the summary of a sync, and are retried: by every
mailkeep sync at once, by the daemon after growing intervals. A message that is fetched leaves the list.

ack silences messages you know about: they are still counted and retried, but a sync that fails on them again
prints nothing about them and exits with code 0. Select with --mailbox, --folder and --uid; --all selects
everything.

EXAMPLES
  mailkeep quarantine
  mailkeep quarantine ack --mailbox anna@example.org --folder INBOX --uid 4711
  mailkeep quarantine ack --all`;

interface QuarantineLine extends QuarantineChoice {
  readonly all?: boolean;
}

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[action]', 'ack: silence the selected messages')
    .option('--mailbox <address>', 'only this mailbox (address or resource id)')
    .option('--folder <path>', 'only this folder')
    .addOption(new Option('--uid <n>', 'only this uid').argParser(Number))
    .option('--all', 'with ack: everything in quarantine')
    .addHelpText('after', HELP)
    .action((action: string | undefined, options: QuarantineLine) =>
      chosen((context) =>
        action === undefined
          ? listQuarantine(context, options)
          : acknowledge(context, action, options, options.all === true),
      ),
    );
}
