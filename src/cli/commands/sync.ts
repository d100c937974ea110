import type { Command } from 'commander';
import type { Body } from '../commands.ts';
import { collected } from '../option-values.ts';

interface SyncLine {
  readonly account?: string;
  readonly mailbox?: string[];
  readonly folder?: string[];
  readonly dryRun?: boolean;
}

const HELP = `
One pass: asks the service what is there, fetches what the archive lacks (newest first), and makes it
searchable. Interrupt it whenever you like: what was committed is safe, and the next sync goes on there.
It ends with a sentence that adds up: at the origin = stored + quarantined + …

Names given with --mailbox and --folder may contain * for any text.

EXAMPLES
  mailkeep sync
  mailkeep sync --dry-run
  mailkeep sync --mailbox anna@example.org --folder INBOX
  mailkeep sync --json --quiet`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--account <name>', 'only this account of the configuration')
    .option('--mailbox <address>', 'only this mailbox; may be given several times', collected)
    .option('--folder <path>', 'only this folder; may be given several times', collected)
    .option('--dry-run', 'tell what would be done and what it costs, and do nothing')
    .addHelpText('after', HELP)
    .action((options: SyncLine) =>
      chosen(async (context) => {
        const { synchronise } = await import('../synchronise.ts');
        return synchronise(context, {
          account: options.account,
          mailboxes: options.mailbox ?? [],
          folders: options.folder ?? [],
          dryRun: options.dryRun ?? false,
        });
      }),
    );
}
