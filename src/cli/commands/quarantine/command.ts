import { type Command, Option } from 'commander';
import type { Body } from '../../context.ts';
import { acknowledge, listQuarantine, type QuarantineChoice } from './list.ts';

const HELP = `
Messages that are at the service and could not be fetched whole: one line each, with the reason and since when.
They block nothing, count as quarantined in the closing sentence of a sync, and are tried again: at once by
every mailkeep sync, after ever longer waits by the daemon. One that succeeds leaves the list.

ack keeps what you know about quiet: it stays counted and is still tried, but a sync that fails at it again
says nothing of it and ends with code 0. Choose by --mailbox, --folder and --uid; --all takes everything.

EXAMPLES
  mailkeep quarantine
  mailkeep quarantine ack --mailbox anna@example.org --folder INBOX --uid 4711
  mailkeep quarantine ack --all`;

interface QuarantineLine extends QuarantineChoice {
  readonly all?: boolean;
}

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[action]', 'ack: keep quiet about what is chosen')
    .option('--mailbox <address>', 'only this mailbox (address or resource id)')
    .option('--folder <path>', 'only this folder')
    .addOption(new Option('--uid <n>', 'only this uid').argParser(Number))
    .option('--all', 'with ack: everything that is in quarantine')
    .addHelpText('after', HELP)
    .action((action: string | undefined, options: QuarantineLine) =>
      chosen((context) =>
        action === undefined
          ? listQuarantine(context, options)
          : acknowledge(context, action, options, options.all === true),
      ),
    );
}
