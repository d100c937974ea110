import { type Command, Option } from 'commander';
import type { Body } from '../../context.ts';
import type { QuarantineChoice } from '../quarantine/list.ts';

const HELP = `
Removes messages permanently, for example when somebody with the right to ask requests it: their bytes, the
text taken from them and from their attachments, their words in the index, what was listed about them, bytes
kept aside, and every older file with any of it. The catalog is rebuilt for that, which takes a while. An
attachment that another message shares stays, and that message is named.

What remains is the id, the time, and the places at which the service still shows the message: it is not
fetched there again, and counts as forgotten in the summary of a sync. At another place it is recognised by
its hash and not stored. Exports, second copies, backups and snapshots are not changed: "mailkeep copy"
removes it from a copy.

--quarantine forgets messages that could not be fetched completely; select with --mailbox, --folder and --uid.

After an interruption at any moment, the same command finishes the work.

EXAMPLES
  mailkeep forget 3f2a91c4
  mailkeep forget 3f2a91c4 9b01d7aa --yes
  mailkeep forget --quarantine --mailbox anna@example.org --folder INBOX --uid 4711`;

interface ForgetLine extends QuarantineChoice {
  readonly quarantine?: boolean;
  readonly yes?: boolean;
}

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[id...]', 'ids of messages, or their beginnings')
    .option('--quarantine', 'forget what is in quarantine')
    .option('--mailbox <address>', 'with --quarantine: this mailbox (address or resource id)')
    .option('--folder <path>', 'with --quarantine: this folder')
    .addOption(new Option('--uid <n>', 'with --quarantine: this uid').argParser(Number))
    .option('--yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((ids: readonly string[], { quarantine = false, yes = false, ...choice }: ForgetLine) =>
      chosen(async (context) => {
        const { forget } = await import('./forget.ts');
        return forget(context, { ids, quarantine, yes, ...choice });
      }),
    );
}
