import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Tells which messages may go, and why the others stay: what is no longer at the service, ended longer ago than
the configuration says (retention.endedAfterDays, draftsAfterDays, rules), in no folder among the newest
(keepAtLeast), and on no hold. An end counts only when a complete look at the folder at least 7 days later
found the same, and only in mailboxes that an account lists still. While the clock is behind the last commit,
or 30 days ahead of it, nothing goes. Without the configuration, nothing ever goes.

--apply removes them for good: the purge is recorded, the affected segments are rewritten without them,
and the chain of commits still proves the rest. Interrupted at any moment, the same command finishes.

EXAMPLES
  mailkeep prune
  mailkeep prune --json
  mailkeep prune --apply`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--apply', 'remove what may go, for good')
    .addHelpText('after', HELP)
    .action((options: { readonly apply?: boolean }) =>
      chosen(async (context) => {
        const { prune } = await import('./prune.ts');
        return prune(context, { apply: options.apply ?? false });
      }),
    );
}
