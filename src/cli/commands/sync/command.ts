import type { Command } from 'commander';
import type { Body } from '../../context.ts';
import { collected } from '../../option-values.ts';

interface SyncLine {
  readonly account?: string;
  readonly mailbox?: string[];
  readonly folder?: string[];
  readonly full?: boolean;
  readonly dryRun?: boolean;
  readonly acceptEndings?: boolean;
  readonly log?: boolean;
}

const HELP = `
Makes one pass: asks the service what is there, fetches what the archive lacks (newest first), and makes it
searchable. You can interrupt it at any time: what was committed is safe, and the next sync continues there.
It ends with a summary that adds up: at the origin = stored + quarantined + …

Without --full it finds all new mail, every change that affects a folder's counts or its newest page, and the
flags on that page. With --full the mirror is exact afterwards.

When so much is gone at once that it looks like an accident, the brake holds it: no message is marked as
deleted, and the exit code is 4. The hold ends when a later sync finds the same after brake.confirmAfter, or
with --accept-endings.

With --quiet, a pass without problems prints nothing, so that cron sends no mail.

Names given with --mailbox and --folder may contain * for any text. --folder also takes the purpose of a folder:
sent, drafts, trash, spam (or junk), archive, flagged. They narrow what the configuration includes.

EXAMPLES
  mailkeep sync
  mailkeep sync --dry-run
  mailkeep sync --mailbox anna@example.org --folder INBOX
  mailkeep sync --json --quiet`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--account <name>', 'only this account of the configuration')
    .option('--mailbox <address>', 'only this mailbox; may be given several times', collected)
    .option(
      '--folder <path>',
      'only this folder: a path, a pattern, or a purpose such as sent; may be given several times',
      collected,
    )
    .option('--full', 'compare every message and flag, not only what counts and newest pages show')
    .option('--accept-endings', 'accept the deletions that the brake holds')
    .option('--dry-run', 'show what would be done and what it costs, and change nothing')
    .option('--log', 'write a log to standard error as JSON Lines, instead of progress')
    .addHelpText('after', HELP)
    .action((options: SyncLine) =>
      chosen(async (context) => {
        const { synchronise } = await import('./synchronise.ts');
        return synchronise(context, {
          account: options.account,
          mailboxes: options.mailbox ?? [],
          folders: options.folder ?? [],
          full: options.full ?? false,
          dryRun: options.dryRun ?? false,
          acceptEndings: options.acceptEndings ?? false,
          log: options.log ?? false,
        });
      }),
    );
}
