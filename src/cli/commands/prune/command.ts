import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Shows which messages may be removed, and why the others stay. A message may be removed if it was deleted at the
service longer ago than the configuration says (retention.endedAfterDays, draftsAfterDays, rules), is not
among the newest of its folder (keepAtLeast), and is not on hold. A deletion counts only if a complete
comparison of the folder at least 7 days later confirmed it, and only in mailboxes that an account still
lists. While the clock is behind the last commit, or 30 days ahead of it, nothing is removed. Without
retention in the configuration, nothing is ever removed.

--apply removes the messages permanently: the purge is recorded, the affected segments are rewritten without
them, and the chain of commits still proves the rest. After an interruption at any moment, the same command
finishes the work.

EXAMPLES
  mailkeep prune
  mailkeep prune --json
  mailkeep prune --apply`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--apply', 'remove these messages permanently')
    .addHelpText('after', HELP)
    .action((options: { readonly apply?: boolean }) =>
      chosen(async (context) => {
        const { prune } = await import('./prune.ts');
        return prune(context, { apply: options.apply ?? false });
      }),
    );
}
